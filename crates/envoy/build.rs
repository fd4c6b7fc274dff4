//! Turns `proto` into Rust, and into the description of itself that the server shows to whoever asks for it.
//!
//! All of it is done in Rust, so nobody needs `protoc` to build Tollgate.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;

const PROTO: &str = "proto";
const SERVICE: &str = "envoy/service/ratelimit/v3/rls.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut files = protox::compile([SERVICE], [PROTO])?;
    // The comments become documentation below, so they go only from what is served.
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .bytes(".")
        .include_file("envoy.rs")
        .compile_fds(files.clone())?;
    files.file.iter_mut().for_each(|file| file.source_code_info = None);
    fs::write(out.join("envoy.bin"), files.encode_to_vec())?;
    Ok(())
}
