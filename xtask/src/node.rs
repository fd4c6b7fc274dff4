//! The Node package in `clients/node`: installs its packages, builds the native module, checks and
//! tests it. npm scripts do the work; this only calls them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::run::Step;
use crate::servers::Servers;
use crate::workspace::Workspace;

const PACKAGE: &str = "clients/node";

/// Installs the versions of the lock file. `npm ci` fails where a registry lacks optional packages
/// of other platforms; `check:lock` ensures what it would.
const INSTALL: &str = "install --no-save --ignore-scripts --fetch-retries=1 --loglevel=error";

/// Checks style and types.
pub(crate) fn lint(workspace: &Workspace) -> Vec<Step> {
    let mut steps = packages(workspace);
    steps.push(Step::new("node lint", npm(workspace, "run lint")));
    steps.push(Step::new("node types", npm(workspace, "run types")));
    steps
}

/// Builds the native module with the settings of the tests, and tests the package. The service must
/// have been built before.
pub(crate) fn test(workspace: &Workspace, servers: &Servers) -> Vec<Step> {
    let service = workspace.target("debug/tollgate");
    let mut tests = npm(workspace, "test");
    servers.pass_to(&mut tests);
    tests.env("TOLLGATE_BIN", &service);
    // After them, because they build the package. Says so if the runtimes cannot be installed.
    let mut runtimes = npm(workspace, "run test:runtimes");
    runtimes.env("TOLLGATE_BIN", &service);

    let mut steps = packages(workspace);
    let native = npm(workspace, "run build:native -- --dev");
    steps.push(Step::new("node native module", native));
    steps.push(Step::new("node tests", tests));
    steps.push(Step::new("node runtimes", runtimes));
    steps
}

/// Builds the package and its native module for release.
pub(crate) fn build(workspace: &Workspace) -> Vec<Command> {
    let scripts = [INSTALL, "run check:lock", "run build", "run build:native"];
    let is_installed = is_installed(&workspace.path(PACKAGE));
    let needed = &scripts[usize::from(is_installed)..];
    needed.iter().map(|script| npm(workspace, script)).collect()
}

/// Installs the packages, unless those of the lock file are installed.
fn packages(workspace: &Workspace) -> Vec<Step> {
    let package = workspace.path(PACKAGE);
    let lock = Step::new("node lock file", npm(workspace, "run check:lock"));
    if is_installed(&package) {
        return vec![lock];
    }

    let install = npm(workspace, INSTALL);
    vec![Step::new("node packages", install), lock]
}

/// Whether npm has installed packages since the lock file was changed.
fn is_installed(package: &Path) -> bool {
    let changed = |file: &str| fs::metadata(package.join(file))?.modified();
    let installed = changed("node_modules/.package-lock.json");
    installed
        .is_ok_and(|installed| changed("package-lock.json").is_ok_and(|lock| lock <= installed))
}

fn npm(workspace: &Workspace, words: &str) -> Command {
    let mut command = workspace.command("npm");
    command.current_dir(workspace.path(PACKAGE));
    command.args(words.split_whitespace());
    command
}
