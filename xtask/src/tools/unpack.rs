//! Debian packages, unpacked into the target directory instead of installed.
//!
//! Installing a server's package needs root and would start the server. Tests need neither: the
//! programs run from any directory once they find their libraries.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::run;
use crate::workspace::Workspace;

/// A launcher that replaces itself with the program of the same name, preferring the unpacked
/// libraries to those of the system.
const LAUNCHER: &str = r#"#!/bin/sh
home=${0%/bin/*}
for libraries in "$home"/lib/*-linux-gnu* "$home"/usr/lib/*-linux-gnu*; do
    LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
done
export LD_LIBRARY_PATH
for program in "$home/usr/sbin/${0##*/}" "$home/usr/bin/${0##*/}"; do
    [ -x "$program" ] && exec "$program" "$@"
done
exit 127
"#;

/// The list of packages to read.
#[derive(Clone, Copy, Debug)]
enum Lists {
    /// The system's list, which may be old or, in a container, missing.
    System,
    /// A list of our own, fetched now, so that the system's list is not written.
    Own,
}

/// Unpacks packages and their missing dependencies into `home`. The programs are in `home/bin`.
pub(super) fn unpack(
    packages: &[&str],
    programs: &[&str],
    home: &Path,
    workspace: &Workspace,
) -> Result<(), Error> {
    let apt = Apt {
        workspace,
        lists: home.join("lists"),
        archives: home.join("archives"),
    };

    create_dir(&apt.archives)?;
    apt.fetch(packages, Lists::System)
        .or_else(|_| apt.update().and_then(|()| apt.fetch(packages, Lists::Own)))?;

    for archive in files(&apt.archives)? {
        let mut extract = workspace.command("dpkg-deb");
        extract.arg("--extract").arg(archive).arg(home);
        run::output(extract)?;
    }

    for finished in [&apt.archives, &apt.lists] {
        let _best_effort = fs::remove_dir_all(finished);
    }

    programs
        .iter()
        .try_for_each(|program| write_launcher(&home.join("bin"), program))
}

/// `apt-get` without root: it writes only inside `home`.
struct Apt<'a> {
    workspace: &'a Workspace,
    lists: PathBuf,
    archives: PathBuf,
}

impl Apt<'_> {
    /// Downloads the packages and their dependencies.
    fn fetch(&self, packages: &[&str], lists: Lists) -> Result<(), Error> {
        let mut plan = self.command(lists);
        plan.args(["install", "--simulate", "--no-install-recommends"])
            .args(packages);
        let plan = run::output(plan)?;

        let mut download = self.command(lists);
        download
            .arg("download")
            .args(new_packages(&String::from_utf8_lossy(&plan)));
        // apt-get downloads into the working directory.
        download.current_dir(&self.archives);

        run::output(download).map(drop)
    }

    fn update(&self) -> Result<(), Error> {
        create_dir(&self.lists.join("partial"))?;
        let mut update = self.command(Lists::Own);
        update.arg("update");
        // A container's clean-up hook may fail without root although everything was fetched. If
        // something is missing, the next step fails.
        let _reported_later = run::output(update);
        Ok(())
    }

    fn command(&self, lists: Lists) -> Command {
        let mut command = self.workspace.command("apt-get");

        // As root, apt-get would download as a user that cannot write to this directory.
        command.args([
            "--quiet",
            "--option",
            "APT::Sandbox::User=root",
            "--option",
            "Debug::NoLocking=1",
        ]);

        if matches!(lists, Lists::Own) {
            command
                .arg("--option")
                .arg(format!("Dir::State::lists={}", self.lists.display()));
            // The cache of the lists must not overwrite the system's cache either.
            command
                .arg("--option")
                .arg(format!("Dir::Cache={}", self.lists.display()));
        }
        command
    }
}

/// The packages that a simulated installation would add and that contain programs or libraries.
///
/// Upgrades of installed packages are left out: the installed library is good enough, and another
/// libc than the system's would not work. Packages for all architectures are left out too: they
/// contain no programs and add up to 200 MB.
fn new_packages(plan: &str) -> Vec<&str> {
    let added = plan
        .lines()
        .filter_map(|line| line.strip_prefix("Inst ")?.split_once(' '));
    let added =
        added.filter(|(_, version)| !version.starts_with('[') && !version.contains("[all]"));
    added.map(|(name, _)| name).collect()
}

fn write_launcher(directory: &Path, program: &str) -> Result<(), Error> {
    create_dir(directory)?;

    let path = directory.join(program);
    let written = fs::write(&path, LAUNCHER).and_then(|()| {
        let executable = Permissions::from_mode(0o755);
        fs::set_permissions(&path, executable)
    });

    written.map_err(|source| Error::Write {
        path: path.display().to_string(),
        source,
    })
}

fn create_dir(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|source| Error::Write {
        path: path.display().to_string(),
        source,
    })
}

fn files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|source| Error::Read {
        path: directory.display().to_string(),
        source,
    })?;
    Ok(entries
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::sample;

    #[test]
    fn only_missing_programs_and_libraries_are_fetched() {
        let plan = "Inst liblua5.3-0 (5.3.6-2 Debian:12.15 [amd64])\n\
                    Inst libjs-d3 (3.5.17-4 Debian:12.15/oldstable [all])\n\
                    Inst libnss3 [2:3.87.1-1] (2:3.87.2-1 Debian:12.15 [amd64]) []\n\
                    Inst haproxy (2.6.12-1 Debian-Security:12 [amd64])\n\
                    Conf haproxy (2.6.12-1 Debian-Security:12 [amd64])\n";
        assert_eq!(new_packages(plan), ["liblua5.3-0", "haproxy"]);
    }

    #[test]
    fn only_lists_of_our_own_are_written() {
        let apt = Apt {
            workspace: &sample(),
            lists: "/home/lists".into(),
            archives: "/home/archives".into(),
        };
        let system = run::command_line(&apt.command(Lists::System));
        assert!(!system.contains("Dir::"), "{system}");
        let own = run::command_line(&apt.command(Lists::Own));
        assert!(
            own.ends_with("Dir::State::lists=/home/lists --option Dir::Cache=/home/lists"),
            "{own}"
        );
    }

    #[test]
    fn a_launcher_becomes_the_program_of_its_name() {
        let home = std::env::temp_dir().join(format!("tollgate-unpack-{}", std::process::id()));
        let program = home.join("usr/bin/greet");
        create_dir(&home.join("usr/bin")).unwrap();
        create_dir(&home.join("usr/lib/any-linux-gnu")).unwrap();
        fs::write(
            &program,
            "#!/bin/sh\necho \"$1 from ${LD_LIBRARY_PATH%%:*}\"\n",
        )
        .unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        write_launcher(&home.join("bin"), "greet").unwrap();

        let mut greet = Command::new(home.join("bin/greet"));
        greet.arg("hello");
        let said = String::from_utf8(run::output(greet).unwrap()).unwrap();
        fs::remove_dir_all(&home).unwrap();
        assert_eq!(
            said.trim(),
            format!("hello from {}/usr/lib/any-linux-gnu", home.display())
        );
    }
}
