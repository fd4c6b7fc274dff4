//! Installs the packages of a Node project from its lock file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::run;
use crate::workspace::Workspace;

/// The files that npm reads.
const PROJECT_FILES: [&str; 3] = [".npmrc", "package.json", "package-lock.json"];

/// Installs the packages into `home/node_modules`, and then links `home/bin/NAME` to Node: the link
/// shows that the installation is complete.
pub(super) fn install(
    project: &str,
    home: &Path,
    name: &str,
    workspace: &Workspace,
) -> Result<(), Error> {
    let mut node = workspace.command("node");
    node.args(["-p", "process.execPath"]);
    let node = run::output(node)?;
    let node = PathBuf::from(String::from_utf8_lossy(&node).trim());

    let bin = home.join("bin");
    fs::create_dir_all(&bin).map_err(|source| unwritable(&bin, source))?;
    for file in PROJECT_FILES {
        let from = workspace.path(project).join(file);
        fs::copy(&from, home.join(file)).map_err(|source| unwritable(home, source))?;
    }

    // Without a network this is to fail soon, not after minutes of retries.
    let mut packages = workspace.command("npm");
    packages.current_dir(home);
    packages.args([
        "ci",
        "--ignore-scripts",
        "--fetch-retries=1",
        "--loglevel=error",
    ]);
    run::output(packages)?;

    let link = bin.join(name);
    symlink(node, &link).map_err(|source| unwritable(&link, source))
}

fn unwritable(path: &Path, source: std::io::Error) -> Error {
    Error::Write {
        path: path.display().to_string(),
        source,
    }
}
