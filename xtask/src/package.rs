//! `cargo xtask package`: builds a Debian package of the service.
//!
//! A directory is filled with what the package installs, and `dpkg-deb` packs it. No other tool is
//! needed.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::run;
use crate::workspace::Workspace;

/// The binary of a release build.
const RELEASE: &str = "release/tollgate";
const DOC: &str = "usr/share/doc/tollgate";
/// Files that dpkg keeps if they were changed.
const CONFFILES: [&str; 2] = ["etc/tollgate/tollgate.yaml", "etc/tollgate/environment"];
/// The scripts that dpkg runs.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// The completions of each shell, and where it looks for them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/tollgate"),
    ("zsh", "usr/share/zsh/vendor-completions/_tollgate"),
    ("fish", "usr/share/fish/vendor_completions.d/tollgate.fish"),
];

/// Builds the package from a release build, or from `binary`, and puts it into `directory`. A
/// package that is compressed quickly is larger.
pub(crate) fn build(
    workspace: &Workspace,
    binary: Option<PathBuf>,
    directory: Option<PathBuf>,
    is_quick: bool,
) -> Result<(), Error> {
    let binary = if let Some(binary) = binary {
        binary
    } else {
        run::alone(workspace.cargo("build --release --package tollgate-server"))?;
        workspace.target(RELEASE)
    };
    let directory = directory.unwrap_or_else(|| workspace.target("debian"));

    let mut print = Command::new("dpkg");
    print.arg("--print-architecture");
    let architecture = text(&run::output(print)?);
    let architecture = architecture.trim();
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("tollgate_{version}_{architecture}");

    let tree = PackageTree {
        workspace,
        root: directory.join(&name),
    };
    tree.clear()?;
    tree.install(&binary)?;
    tree.describe(&binary, version, architecture)?;

    let package = directory.join(format!("{name}.deb"));
    let mut pack = Command::new("dpkg-deb");
    if is_quick {
        pack.args(["-Zgzip", "-z1"]);
    }
    pack.args(["--build", "--root-owner-group"]);
    pack.arg(&tree.root).arg(&package);
    run::alone(pack)
}

/// The directory with what the package installs.
struct PackageTree<'w> {
    workspace: &'w Workspace,
    root: PathBuf,
}

impl PackageTree<'_> {
    /// Removes what an earlier build left here.
    fn clear(&self) -> Result<(), Error> {
        match fs::remove_dir_all(&self.root) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(write_error(&self.root, source))
            }
            _ => Ok(()),
        }
    }

    /// Adds everything that is installed.
    fn install(&self, binary: &Path) -> Result<(), Error> {
        self.add("usr/bin/tollgate", &read(binary)?, 0o755)?;
        for unit in ["tollgate.service", "tollgate@.service"] {
            let text = self.file(&format!("deploy/systemd/{unit}"))?;
            let text = text.replace("/usr/local/bin/tollgate", "/usr/bin/tollgate");
            self.add(
                &format!("usr/lib/systemd/system/{unit}"),
                text.as_bytes(),
                0o644,
            )?;
        }

        self.copy("deploy/debian/tollgate.yaml", CONFFILES[0], 0o644)?;
        // Secrets are for root, who starts the service.
        self.copy("deploy/debian/environment", CONFFILES[1], 0o600)?;
        for (shell, path) in COMPLETIONS {
            let mut command = Command::new(binary);
            command.args(["completions", shell]);
            self.add(path, &run::output(command)?, 0o644)?;
        }
        self.copy(
            "deploy/debian/tollgate.1",
            "usr/share/man/man1/tollgate.1",
            0o644,
        )?;
        self.install_docs()
    }

    fn install_docs(&self) -> Result<(), Error> {
        self.copy(
            "deploy/debian/copyright",
            &format!("{DOC}/copyright"),
            0o644,
        )?;
        for file in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            self.copy(file, &format!("{DOC}/{file}"), 0o644)?;
        }
        self.copy(
            "examples/tollgate.yaml",
            &format!("{DOC}/examples/tollgate.yaml"),
            0o644,
        )?;
        self.copy(
            "deploy/nginx/tollgate.conf",
            &format!("{DOC}/examples/nginx.conf"),
            0o644,
        )?;

        let docs = self.workspace.path("docs");
        let entries = fs::read_dir(&docs).map_err(|source| read_error(&docs, source))?;
        for entry in entries {
            let name = entry
                .map_err(|source| read_error(&docs, source))?
                .file_name();
            let name = name.to_string_lossy();
            if name.ends_with(".md") {
                self.copy(
                    &format!("docs/{name}"),
                    &format!("{DOC}/docs/{name}"),
                    0o644,
                )?;
            }
        }
        Ok(())
    }

    /// Adds what dpkg reads: the fields, the list of configuration files and the scripts.
    fn describe(&self, binary: &Path, version: &str, architecture: &str) -> Result<(), Error> {
        let control = self.file("deploy/debian/control")?;
        let bytes = read(binary)?;
        let kilobytes = (bytes.len() / 1024 + 1_024).to_string();
        let control = control
            .replace("@version@", version)
            .replace("@architecture@", architecture)
            .replace("@kilobytes@", &kilobytes)
            .replace("@depends@", &depends(&bytes));
        self.add("DEBIAN/control", control.as_bytes(), 0o644)?;

        let mut conffiles = String::new();
        for path in CONFFILES {
            let _infallible = writeln!(conffiles, "/{path}");
        }
        self.add("DEBIAN/conffiles", conffiles.as_bytes(), 0o644)?;
        for script in SCRIPTS {
            let from = format!("deploy/debian/{script}");
            self.copy(&from, &format!("DEBIAN/{script}"), 0o755)?;
        }
        Ok(())
    }

    fn file(&self, path: &str) -> Result<String, Error> {
        read(&self.workspace.path(path)).map(|bytes| text(&bytes))
    }

    fn copy(&self, from: &str, to: &str, mode: u32) -> Result<(), Error> {
        self.add(to, &read(&self.workspace.path(from))?, mode)
    }

    fn add(&self, path: &str, content: &[u8], mode: u32) -> Result<(), Error> {
        let path = self.root.join(path);
        let error = |source| write_error(&path, source);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(error)?;
        }
        fs::write(&path, content).map_err(error)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(error)
    }
}

/// The libraries that the binary needs: the C library of the newest version it names.
fn depends(binary: &[u8]) -> String {
    const PREFIX: &[u8] = b"GLIBC_2.";
    let mut newest = 0;
    for at in 0..binary.len().saturating_sub(PREFIX.len()) {
        if binary[at..].starts_with(PREFIX) {
            let digits = binary[at + PREFIX.len()..].iter().take(3);
            let digits = digits.take_while(|byte| byte.is_ascii_digit());
            let number = digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
            newest = newest.max(number);
        }
    }

    format!("libc6 (>= 2.{newest}), libgcc-s1")
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| read_error(path, source))
}

fn read_error(path: &Path, source: std::io::Error) -> Error {
    let path = path.display().to_string();
    Error::Read { path, source }
}

fn write_error(path: &Path, source: std::io::Error) -> Error {
    let path = path.display().to_string();
    Error::Write { path, source }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_the_c_library_is_needed() {
        let binary = b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.17\0GLIBC_";
        assert_eq!(depends(binary), "libc6 (>= 2.34), libgcc-s1");
    }
}
