//! Compiles the files in `proto` to Rust code and to the descriptor set that gRPC reflection
//! serves.
//!
//! The compiler is written in Rust, so building Tollgate does not require `protoc`.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};

const PROTO: &str = "proto";
const SERVICES: [&str; 2] = [
    "envoy/service/ratelimit/v3/rls.proto",
    "kuadrant/service/ratelimit/v1/kuadrantrls.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let mut files = protox::compile(SERVICES, [PROTO])?;

    let mut code = files.clone();
    use_bytes_for_strings(&mut code);
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .bytes(".")
        .include_file("envoy.rs")
        .compile_fds(code)?;

    // The generated code has the comments as documentation; the descriptor set omits them.
    files
        .file
        .iter_mut()
        .for_each(|file| file.source_code_info = None);
    fs::write(out_dir.join("envoy.bin"), files.encode_to_vec())?;
    Ok(())
}

/// Changes some `string` fields to `bytes` in the generated code. Both have the same encoding, and
/// reflection still shows strings.
///
/// * The values of descriptor entries. Envoy copies client input into them, which may be invalid
///   UTF-8. Envoy by default lets a request pass if its message is rejected, so one invalid byte
///   would evade every limit.
/// * The names of headers. They are constants, so as bytes they need no allocation.
fn use_bytes_for_strings(files: &mut FileDescriptorSet) {
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
            .expect("the file is compiled");

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
