//! `tollgate serve`: holds the service's place until it is there, so that the command already fails clearly.

use std::process::ExitCode;

/// The command was understood and cannot be carried out, as with any other wrong use of the command line.
const EXIT_USAGE: u8 = 2;

pub(crate) fn run() -> ExitCode {
    eprintln!(
        "error: `serve` is not there yet: version {} of Tollgate has no service.\n\
         What works today is the library, with its embedded store: `cargo doc --open -p tollgate`",
        env!("CARGO_PKG_VERSION")
    );
    ExitCode::from(EXIT_USAGE)
}
