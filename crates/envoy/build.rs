//! Turns `proto` into Rust, and into the description of itself that the server shows to whoever asks for it.
//!
//! All of it is done in Rust, so nobody needs `protoc` to build Tollgate.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;
use prost_types::FileDescriptorSet;
use prost_types::field_descriptor_proto::Type;

const PROTO: &str = "proto";
const SERVICE: &str = "envoy/service/ratelimit/v3/rls.proto";
const DESCRIPTOR: &str = "envoy/extensions/common/ratelimit/v3/ratelimit.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut files = protox::compile([SERVICE], [PROTO])?;
    let mut code = files.clone();
    take_values_as_bytes(&mut code);
    // The comments become documentation below, so they go only from what is served.
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .bytes(".")
        .include_file("envoy.rs")
        .compile_fds(code)?;
    files.file.iter_mut().for_each(|file| file.source_code_info = None);
    fs::write(out.join("envoy.bin"), files.encode_to_vec())?;
    Ok(())
}

/// Values are text by the protocol, and Envoy puts into them what clients send, text or not. A message that is refused as a
/// whole for that is an error to Envoy, which by default lets the request pass: one byte would be a way around every limit.
/// On the wire text and bytes are the same, so the code takes bytes while reflection goes on to show text.
fn take_values_as_bytes(files: &mut FileDescriptorSet) {
    let file = files.file.iter_mut().find(|file| file.name() == DESCRIPTOR);
    let descriptor = file.and_then(|file| file.message_type.first_mut()).expect("there is a descriptor");
    let entry = descriptor.nested_type.iter_mut().find(|nested| nested.name() == "Entry");
    let value = entry.and_then(|entry| entry.field.iter_mut().find(|field| field.name() == "value"));
    value.expect("an entry has a value").set_type(Type::Bytes);
}
