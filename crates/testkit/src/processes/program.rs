//! Finds programs.

use std::env;
use std::path::{Path, PathBuf};

/// Finds a program that tests start: the path in the environment variable, or on the PATH, or
/// installed by `cargo xtask test`.
///
/// # Panics
///
/// If it is not found; the message says how to install it.
pub fn find_program(variable: &str, program: &str) -> PathBuf {
    try_find_program(variable, program).unwrap_or_else(|| missing(program, variable))
}

/// The same for callers that can do without the program.
pub fn try_find_program(variable: &str, program: &str) -> Option<PathBuf> {
    told(variable)
        .or_else(|| on_path(program))
        .or_else(|| installed(program))
}

/// Finds a Python that can import `schemathesis` and `http_sfv`. The one on the PATH may not have
/// them, so it is tried last.
///
/// # Panics
///
/// If no Python is found; the message says how to install it.
pub fn find_python_tools() -> PathBuf {
    find_beside("TOLLGATE_PYTHON_TOOLS", "schemathesis", "python3")
}

/// Finds the program in the environment variable, or the one that was installed together with
/// another program, or the one on the PATH.
///
/// # Panics
///
/// If it is not found; the message says how to install it.
pub(crate) fn find_beside(variable: &str, neighbor: &str, program: &str) -> PathBuf {
    told(variable)
        .or_else(|| installed(neighbor).map(|tool| tool.with_file_name(program)))
        .unwrap_or_else(|| find_program(variable, program))
}

/// The path in an environment variable.
fn told(variable: &str) -> Option<PathBuf> {
    let path = env::var_os(variable).filter(|path| !path.is_empty());
    path.map(PathBuf::from)
}

/// Debian installs servers in a directory that only root has on the PATH.
fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    directories
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// Looks in `tools/<tool>/bin/<program>` of the target directory of the running test. Any version
/// will do, so the last one by name is used.
fn installed(program: &str) -> Option<PathBuf> {
    let test = env::current_exe().ok()?;
    let tools = test
        .ancestors()
        .map(|directory| directory.join("tools"))
        .find(|tools| tools.is_dir())?;

    let homes = tools.read_dir().ok()?.filter_map(Result::ok);
    homes
        .map(|home| home.path().join("bin").join(program))
        .filter(|file| Path::is_file(file))
        .max()
}

#[expect(clippy::panic, reason = "a test cannot continue without its program")]
fn missing(program: &str, variable: &str) -> ! {
    panic!("{program} not found; install it with `cargo xtask test`, or set {variable} to its path")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_on_the_path_is_found() {
        assert!(find_program("TOLLGATE_NO_SUCH_VARIABLE", "sh").ends_with("sh"));
    }

    #[test]
    #[should_panic(expected = "TOLLGATE_NO_SUCH_VARIABLE")]
    fn a_missing_program_is_reported_with_its_variable() {
        find_program("TOLLGATE_NO_SUCH_VARIABLE", "no-such-program-anywhere");
    }
}
