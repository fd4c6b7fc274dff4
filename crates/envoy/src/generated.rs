//! What the build made of `proto`. It is not ours to style.

#![expect(
    unreachable_pub,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::default_trait_access,
    clippy::doc_markdown,
    reason = "generators have a style of their own, and the crate chooses what it exports"
)]

include!(concat!(env!("OUT_DIR"), "/envoy.rs"));
