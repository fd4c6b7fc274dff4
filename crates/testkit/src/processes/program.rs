//! Where programs are.

use std::env;
use std::path::{Path, PathBuf};

/// A program that tests start: what the variable names, else what is on the PATH, else what `cargo
/// xtask test` has installed.
///
/// # Panics
///
/// When it is nowhere, saying how to get it.
pub fn find_program(variable: &str, program: &str) -> PathBuf {
    let told = env::var_os(variable)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    let found = told
        .or_else(|| on_path(program))
        .or_else(|| installed(program));
    found.unwrap_or_else(|| missing(program, variable))
}

/// A Python that can import `schemathesis` and `http_sfv`. The one on the PATH may be without them,
/// so it comes last.
///
/// # Panics
///
/// When there is no Python, saying how to get it.
pub fn find_python_tools() -> PathBuf {
    let (variable, program) = ("TOLLGATE_PYTHON_TOOLS", "python3");
    let told = env::var_os(variable)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    told.or_else(|| installed("schemathesis").map(|tool| tool.with_file_name(program)))
        .unwrap_or_else(|| find_program(variable, program))
}

/// Debian keeps servers in a directory that only root has on the PATH.
fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    directories
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// `tools/<tool>/bin/<program>` in the directory that the running test was built into. Of several
/// versions the last by name is as good as any.
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

#[expect(clippy::panic, reason = "a test cannot go on without its program")]
fn missing(program: &str, variable: &str) -> ! {
    panic!("{program} is missing: install with `cargo xtask test`, or name it in {variable}")
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
    fn a_program_that_is_nowhere_says_how_to_name_it() {
        find_program("TOLLGATE_NO_SUCH_VARIABLE", "no-such-program-anywhere");
    }
}
