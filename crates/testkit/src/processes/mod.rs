//! Processes that tests start: where their programs are, a directory for each, and an end that no
//! test outlives.

mod directory;
mod process;
mod program;

pub(crate) use directory::Directory;
pub(crate) use process::Process;
pub use program::{find_program, find_python_tools};
