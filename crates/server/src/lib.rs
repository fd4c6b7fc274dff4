//! The `tollgate` service and command line, as a library with a thin binary in front.
//!
//! This crate owns what surrounds the limiter: the command line now, configuration and network fronts later. It must
//! not know the arithmetic of any algorithm; that is the `tollgate` crate's.

use std::process::ExitCode;

mod cli;
mod serve;

pub use cli::{Cli, Command};

/// Does what the command line asks; the result is the process's exit code.
pub fn run(cli: &Cli) -> ExitCode {
    match cli.command {
        Command::Serve => serve::run(),
    }
}
