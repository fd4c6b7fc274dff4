//! Turns `proto` into Rust, and into the description of itself that the server shows to whoever
//! asks for it.
//!
//! All of it is done in Rust, so nobody needs `protoc` to build Tollgate.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};

const PROTO: &str = "proto";
const SERVICE: &str = "envoy/service/ratelimit/v3/rls.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut files = protox::compile([SERVICE], [PROTO])?;
    let mut code = files.clone();
    take_as_bytes(&mut code);
    // The comments become documentation below, so they go only from what is served.
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .bytes(".")
        .include_file("envoy.rs")
        .compile_fds(code)?;
    files
        .file
        .iter_mut()
        .for_each(|file| file.source_code_info = None);
    fs::write(out.join("envoy.bin"), files.encode_to_vec())?;
    Ok(())
}

/// Makes some texts bytes in the code. On the wire the two are the same, and reflection goes on to
/// show text.
///
/// * What a descriptor says: Envoy puts into it what clients send, text or not. A message that is
///   refused as a whole for that is an error to Envoy, which by default lets the request pass: one
///   byte would be a way around every limit.
/// * The names of headers: they are known beforehand, so that none needs a text of its own.
fn take_as_bytes(files: &mut FileDescriptorSet) {
    for (file, message, field) in [
        (
            "envoy/extensions/common/ratelimit/v3/ratelimit.proto",
            "Entry",
            "value",
        ),
        ("envoy/config/core/v3/base.proto", "HeaderValue", "key"),
    ] {
        let file = files
            .file
            .iter_mut()
            .find(|known| known.name() == file)
            .expect("the file was read");
        let messages = file.message_type.iter_mut().flat_map(|outer| {
            let DescriptorProto {
                name,
                field,
                nested_type,
                ..
            } = outer;
            nested_type
                .iter_mut()
                .map(|inner| (&inner.name, &mut inner.field))
                .chain([(&*name, field)])
        });
        let mut fields = messages
            .filter(|(name, _)| name.as_deref() == Some(message))
            .flat_map(|(_, fields)| fields);
        let field = fields
            .find(|known| known.name() == field)
            .expect("the message has the field");
        field.set_type(Type::Bytes);
    }
}
