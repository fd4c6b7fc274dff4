//! Where the servers' programs are.

use std::env;
use std::path::{Path, PathBuf};

use super::Flavor;

/// The program of a flavor.
///
/// # Panics
///
/// When it is nowhere, saying how to get it.
pub(super) fn find(flavor: Flavor) -> PathBuf {
    let (variable, program) = match flavor {
        Flavor::Redis => ("TOLLGATE_REDIS_SERVER", "redis-server"),
        Flavor::Valkey => ("TOLLGATE_VALKEY_SERVER", "valkey-server"),
    };
    let told = env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let found = told.or_else(|| on_path(program)).or_else(|| installed(program));
    found.unwrap_or_else(|| missing(program, variable))
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// What `cargo xtask` installed: `tools/<tool>-<version>/bin/<program>` in the directory that the running test was built
/// into. Of several versions the last by name is as good as any.
fn installed(program: &str) -> Option<PathBuf> {
    let test = env::current_exe().ok()?;
    let tools = test.ancestors().map(|directory| directory.join("tools")).find(|tools| tools.is_dir())?;
    let homes = tools.read_dir().ok()?.filter_map(Result::ok);
    homes.map(|home| home.path().join("bin").join(program)).filter(|file| Path::is_file(file)).max()
}

#[expect(clippy::panic, reason = "a test cannot go on without its server")]
fn missing(program: &str, variable: &str) -> ! {
    panic!("{program} is missing: install with `cargo xtask test`, or name it in {variable}")
}
