//! Processes that tests start: how to find their programs, a directory for each, and a guarantee
//! that they end with the test.

mod directory;
mod process;
mod program;

pub use directory::Directory;
pub use process::Process;
pub(crate) use program::find_beside;
pub use program::{find_program, find_python_tools, try_find_program};
