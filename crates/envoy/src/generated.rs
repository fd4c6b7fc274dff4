//! The code that `build.rs` generates from `proto`.

#![expect(
    unreachable_pub,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::default_trait_access,
    clippy::doc_markdown,
    clippy::too_many_lines,
    reason = "this is generated code, and the crate root chooses what to export"
)]

include!(concat!(env!("OUT_DIR"), "/envoy.rs"));
