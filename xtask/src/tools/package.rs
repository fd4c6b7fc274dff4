//! System packages, on Debian and its derivatives.

use std::process::Command;

use crate::error::Error;
use crate::run;
use crate::workspace::Workspace;

/// The `apt-get` commands, in order. The list of packages is updated first: it may be old or, in a
/// container, missing.
fn steps(package: &str) -> [Vec<&str>; 2] {
    [
        vec!["update"],
        vec!["install", "-y", "--no-install-recommends", package],
    ]
}

/// Installs a package, as root or with a `sudo` that needs no password.
pub(super) fn install(package: &str, workspace: &Workspace) -> Result<(), Error> {
    let mut id = workspace.command("id");
    id.arg("-u");
    let is_root = run::output(id)?.trim_ascii() == b"0";
    steps(package).into_iter().try_for_each(|arguments| {
        let command = apt_get(workspace, is_root, &arguments);
        eprintln!("$ {}", run::command_line(&command));
        run::output(command).map(drop)
    })
}

/// The command to run by hand where that is not allowed.
pub(super) fn instruction(package: &str) -> String {
    let commands = steps(package).map(|arguments| format!("sudo apt-get {}", arguments.join(" ")));
    commands.join(" && ")
}

fn apt_get(workspace: &Workspace, is_root: bool, arguments: &[&str]) -> Command {
    let mut command = workspace.command(if is_root { "apt-get" } else { "sudo" });
    if !is_root {
        command.args(["-n", "apt-get"]);
    }
    // A package must not stop and ask how it should be set up.
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive");
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::sample;

    #[test]
    fn who_is_not_root_tries_without_being_asked_for_a_password() {
        let line = |is_root| run::command_line(&apt_get(&sample(), is_root, &["update"]));
        assert_eq!(line(true), "apt-get update");
        assert_eq!(line(false), "sudo -n apt-get update");
    }

    #[test]
    fn the_instruction_can_be_typed_as_it_is() {
        let expected =
            "sudo apt-get update && sudo apt-get install -y --no-install-recommends redis-server";
        assert_eq!(instruction("redis-server"), expected);
    }
}
