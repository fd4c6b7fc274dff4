//! The `tollgate` binary: parses the command line and calls the library.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    tollgate_server::run(&tollgate_server::Cli::parse())
}
