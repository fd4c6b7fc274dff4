//! The Debian package: built, inspected, installed into a directory of its own, started, upgraded
//! and purged.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::processes::Directory;
use testkit::reverse_proxy;

use crate::deploy::{put, read};
use crate::harness::Tollgate;

const UNITS: &str = "usr/lib/systemd/system";

fn run(command: &mut Command) -> Output {
    let output = command.output().expect("the program is installed");
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Builds the package from the binary of the tests.
fn build(directory: &Path) -> PathBuf {
    let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    run(Command::new(env!("CARGO"))
        .current_dir(workspace)
        .args([
            "run",
            "--quiet",
            "--package",
            "xtask",
            "--",
            "package",
            "--quick",
        ])
        .args(["--binary", env!("CARGO_BIN_EXE_tollgate")])
        .arg("--directory")
        .arg(directory));

    let files = std::fs::read_dir(directory).expect("a directory of ours");
    let mut files = files.map(|file| file.expect("it can be read").path());
    files
        .find(|file| file.extension().is_some_and(|extension| extension == "deb"))
        .expect("a package")
}

/// A root directory with an empty database of packages.
struct InstallRoot(Directory);

impl InstallRoot {
    fn new() -> Self {
        let root = Directory::create();
        let database = root.path().join("var/lib/dpkg");
        for directory in ["info", "updates", "triggers"] {
            std::fs::create_dir_all(database.join(directory)).expect("a writable directory");
        }
        std::fs::write(database.join("status"), "").expect("a writable directory");
        Self(root)
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.0.path().join(inside)
    }

    /// Runs dpkg on this root. The scripts of a package run outside of it, as it has no shell.
    fn dpkg(&self, arguments: &[&str]) -> Output {
        let force = "--force-not-root,script-chrootless,depends,bad-path";
        let root = format!("--root={}", self.0.path().display());
        run(Command::new("dpkg")
            .args([force, &root])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive"))
    }

    /// A path that the package installs, as it is in this root.
    fn inside(&self, word: &str) -> String {
        if word.starts_with("/usr/") || word.starts_with("/etc/") {
            self.path(&word[1..]).display().to_string()
        } else {
            word.to_owned()
        }
    }

    /// Starts what a unit starts, with the addresses of a test.
    fn start(&self, unit: &str) -> Tollgate {
        let unit = std::fs::read_to_string(self.path(UNITS).join(unit)).expect("a unit");
        let unit = unit.replace("\\\n", " ").replace("%i", "1");
        let command = unit
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="))
            .expect("a command");
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("/usr/bin/tollgate"));
        assert_eq!(words.next(), Some("serve"));

        let mut arguments: Vec<String> = Vec::new();
        while let Some(word) = words.next() {
            // The harness sets the format of the log, and addresses that are free.
            if ["--log-format", "--http", "--grpc", "--admin"].contains(&word) {
                words.next();
            } else {
                arguments.push(self.inside(word));
            }
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Tollgate::with_binary(&self.path("usr/bin/tollgate"), &arguments)
    }
}

fn expect_contents(package: &Path) {
    let info = text(&run(Command::new("dpkg-deb").arg("--info").arg(package)));
    for line in [
        "Package: tollgate",
        "Depends: libc6 (>= 2.",
        "postinst",
        "conffiles",
    ] {
        assert!(info.contains(line), "{line} is missing: {info}");
    }
    let contents = text(&run(Command::new("dpkg-deb")
        .arg("--contents")
        .arg(package)));
    for (mode, path) in [
        ("-rwxr-xr-x root/root", "./usr/bin/tollgate"),
        ("-rw-r--r-- root/root", "./etc/tollgate/tollgate.yaml"),
        ("-rw------- root/root", "./etc/tollgate/environment"),
        (
            "-rw-r--r-- root/root",
            "./usr/lib/systemd/system/tollgate.service",
        ),
        (
            "-rw-r--r-- root/root",
            "./usr/lib/systemd/system/tollgate@.service",
        ),
        ("-rw-r--r-- root/root", "./usr/share/man/man1/tollgate.1"),
        (
            "-rw-r--r-- root/root",
            "./usr/share/bash-completion/completions/tollgate",
        ),
        ("-rw-r--r-- root/root", "./usr/share/doc/tollgate/copyright"),
        (
            "-rw-r--r-- root/root",
            "./usr/share/doc/tollgate/docs/troubleshooting.md",
        ),
    ] {
        let mut lines = contents.lines();
        let line = lines.find(|line| line.ends_with(&format!(" {path}")));
        assert!(
            line.is_some_and(|line| line.starts_with(mode)),
            "{path}: {line:?}"
        );
    }
}

/// systemd accepts the installed units, if it is installed here.
fn expect_valid_units(root: &InstallRoot) {
    let Some(analyze) = ["/usr/bin/systemd-analyze", "/bin/systemd-analyze"]
        .into_iter()
        .find(|program| Path::new(program).is_file())
    else {
        return;
    };
    let copies = Directory::create();
    for (unit, instance) in [
        ("tollgate.service", "tollgate.service"),
        ("tollgate@.service", "tollgate@1.service"),
    ] {
        let text = std::fs::read_to_string(root.path(UNITS).join(unit)).expect("a unit");
        let binary = root.inside("/usr/bin/tollgate");
        let copy = copies.write(instance, put(&text, "/usr/bin/tollgate", &binary));
        run(Command::new(analyze).arg("verify").arg(copy));
    }
}

#[test]
fn the_package_installs_starts_upgrades_and_purges() {
    let directory = Directory::create();
    let package = build(directory.path());
    expect_contents(&package);
    let package = package.to_str().expect("UTF-8");

    let root = InstallRoot::new();
    root.dpkg(&["--install", package]);
    let status = text(&root.dpkg(&["--status", "tollgate"]));
    assert!(status.contains("Status: install ok installed"), "{status}");
    expect_valid_units(&root);

    for unit in ["tollgate.service", "tollgate@.service"] {
        let service = root.start(unit);
        let health = reverse_proxy::get(service.http, "/healthz", &[]);
        assert_eq!(health.status, 200, "{unit}: {}", service.log());
        let answer = service.check(r#"{"attributes": {"client_ip": "203.0.113.7"}}"#);
        assert_eq!(answer.header("x-ratelimit-limit"), Some("100"), "{unit}");
    }

    // A changed file survives an upgrade, and only purging removes it.
    let config = root.path("etc/tollgate/tollgate.yaml");
    let changed = std::fs::read_to_string(&config).expect("a file") + "# mine\n";
    std::fs::write(&config, &changed).expect("a writable file");
    root.dpkg(&["--install", package]);
    assert_eq!(std::fs::read_to_string(&config).expect("a file"), changed);
    root.dpkg(&["--remove", "tollgate"]);
    assert!(config.is_file() && !root.path("usr/bin/tollgate").exists());
    root.dpkg(&["--purge", "tollgate"]);
    assert!(!root.path("etc/tollgate").exists());
}

/// Several replicas on one machine run as one replica does.
#[test]
fn both_units_have_the_same_sandbox() {
    let [one, several] = ["tollgate.service", "tollgate@.service"].map(|unit| {
        let text = read(&format!("systemd/{unit}"));
        let (_, sandbox) = text.split_once("# Sandbox").expect("a sandbox");
        sandbox.to_owned()
    });
    assert!(one.contains("DynamicUser=yes"));
    assert_eq!(one, several);
}
