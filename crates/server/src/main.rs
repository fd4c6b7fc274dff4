//! The `tollgate` binary: hands the command line to the library.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    tollgate_server::run(&tollgate_server::Cli::parse())
}
