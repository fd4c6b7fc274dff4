//! The snapshot of the memory store: counters survive a restart, whatever ends the process.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use testkit::{reverse_proxy, wait};

use crate::harness::{PATIENCE, Tollgate, write_config};

const ANN: &str = r#"{"attributes": {"user": "ann"}}"#;

/// A directory of the test, with the configuration of a service that saves its counters there.
struct SnapshotDirectory {
    config: PathBuf,
}

impl SnapshotDirectory {
    fn new() -> Self {
        Self {
            config: write_config(""),
        }
    }

    fn file(&self) -> PathBuf {
        self.config.with_file_name("counters.snapshot")
    }

    /// Ten per hour and user, saved once a second.
    fn yaml(&self, more: &str) -> String {
        let file = self.file();
        format!(
            "store: {{snapshot: '{}', snapshot_interval: 1s{more}}}\n\
             limits:\n\
             - {{name: api, key: [user], algorithm: sliding_log, limit: 10, window: 1h}}\n\
             - {{name: jobs, key: [job], optional: true, algorithm: concurrency, limit: 1, \
                 permit_timeout: 1h}}",
            file.display()
        )
    }

    fn start(&self) -> Tollgate {
        Tollgate::with_config(&self.yaml(""))
    }

    /// Tries to start a service that should refuse. One that does not is ended.
    fn run(&self) -> Output {
        fs::write(&self.config, self.yaml("")).expect("a writable file");
        let mut serve = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        let serve = serve.args(["serve", "--log-format", "json", "--config"]);
        let ports = ["--http", "--grpc", "--admin"].map(|port| [port, "127.0.0.1:0"]);
        let serve = serve.arg(&self.config).args(ports.concat());
        let serve = serve.stdout(Stdio::null()).stderr(Stdio::piped());

        let mut process = serve.spawn().expect("the binary was built");
        let ended = || process.try_wait().expect("it is ours");
        if wait::within(PATIENCE, ended).is_none() {
            process.kill().expect("it is ours");
        }
        process.wait_with_output().expect("it is ours")
    }
}

impl Drop for SnapshotDirectory {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(self.config.with_file_name("")));
    }
}

fn status(service: &Tollgate) -> serde_json::Value {
    let answer = reverse_proxy::send(service.admin, "GET", "/admin/status", &[], b"");
    serde_json::from_str(&answer.text()).expect("JSON")
}

fn spend(service: &Tollgate, times: usize) -> Vec<u16> {
    (0..times).map(|_| service.check(ANN).status).collect()
}

fn stop(mut service: Tollgate) {
    service.signal("TERM");
    let exit = service.wait_for_exit();
    assert!(exit.success(), "{exit}: {}", service.log());
}

/// Waits until a snapshot that began after now was saved.
fn wait_for_save(service: &Tollgate) {
    let saved_at = || status(service)["store"]["snapshot"]["saved_at_ms"].as_u64();
    for _ in 0..2 {
        let before = saved_at();
        wait::until_true(PATIENCE, "the snapshot to be saved", || saved_at() > before);
    }
}

#[test]
fn counters_and_permits_survive_a_restart() {
    let directory = SnapshotDirectory::new();
    let service = directory.start();
    assert_eq!(spend(&service, 7), [200; 7]);
    let job = r#"{"attributes": {"user": "job", "job": "a"}}"#;
    let permit = service.check(job);
    assert_eq!(permit.status, 200);
    let permit: serde_json::Value = serde_json::from_str(&permit.text()).expect("JSON");
    stop(service);
    assert_eq!(
        fs::metadata(directory.file()).expect("it was saved").mode() & 0o777,
        0o600
    );

    let service = directory.start();
    assert_eq!(spend(&service, 5), [200, 200, 200, 429, 429]);
    assert_eq!(service.check(job).status, 429, "the permit is still held");
    let release = serde_json::json!({"permit": permit["permit"]}).to_string();
    let released = service.post("/v1/release", &release);
    assert_eq!(released.text(), r#"{"released":true}"#);
    assert_eq!(service.check(job).status, 200);
    stop(service);
}

#[test]
fn a_killed_process_loses_at_most_an_interval() {
    let directory = SnapshotDirectory::new();
    let mut service = directory.start();
    assert_eq!(spend(&service, 7), [200; 7]);
    wait_for_save(&service);
    service.signal("KILL");
    service.wait_for_exit();

    let service = directory.start();
    assert_eq!(spend(&service, 4), [200, 200, 200, 429]);
    let leftovers = fs::read_dir(directory.file().with_file_name("")).expect("a directory");
    let leftovers = leftovers.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = leftovers.collect();
    names.sort();
    assert_eq!(
        names,
        [
            "counters.snapshot",
            "counters.snapshot.key",
            "counters.snapshot.lock",
            "tollgate.yaml"
        ]
    );
}

#[test]
fn a_symbolic_link_stays_one() {
    let directory = SnapshotDirectory::new();
    let target = directory.file().with_file_name("elsewhere.snapshot");
    symlink("elsewhere.snapshot", directory.file()).expect("a new link");
    let service = directory.start();
    assert_eq!(spend(&service, 7), [200; 7]);
    stop(service);
    let link = fs::symlink_metadata(directory.file()).expect("a link");
    assert!(link.is_symlink());
    assert!(fs::symlink_metadata(target).expect("a file").is_file());
    assert_eq!(spend(&directory.start(), 4), [200, 200, 200, 429]);
}

/// A file that is far longer than the memory, of which only the beginning is read.
#[test]
fn a_file_without_end_is_refused() {
    let directory = SnapshotDirectory::new();
    for (beginning, expected) in [
        (&b"no snapshot"[..], "not a snapshot"),
        (b"TOLLGATE\x04\0\0\0\0\0\0\0", "at most"),
    ] {
        fs::write(directory.file(), beginning).expect("a writable file");
        let file = fs::File::options().write(true).open(directory.file());
        let size = if expected == "at most" {
            1 << 40
        } else {
            1 << 20
        };
        file.and_then(|file| file.set_len(size))
            .expect("a sparse file");
        let refused = directory.run();
        assert_eq!(refused.status.code(), Some(2));
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_second_process_is_refused() {
    let directory = SnapshotDirectory::new();
    let service = directory.start();

    let second = directory.run();
    assert_eq!(second.status.code(), Some(2));
    let error = String::from_utf8_lossy(&second.stderr).into_owned();
    let file = directory.file();
    assert!(
        error.contains(&format!(
            "another process uses the snapshot {}",
            file.display()
        )) && error.contains("Redis"),
        "{error}"
    );

    assert_eq!(spend(&service, 1), [200], "the first one still works");
    stop(service);
    stop(directory.start());
}

/// Checks that the service does not start, and why.
fn assert_refused(directory: &SnapshotDirectory, reason: &str) {
    let refused = directory.run();
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(
        error.contains(&directory.file().display().to_string()) && error.contains(reason),
        "{error}"
    );
}

#[test]
fn a_broken_file_is_refused_and_left_alone() {
    let directory = SnapshotDirectory::new();
    let service = directory.start();
    spend(&service, 7);
    stop(service);
    let file = directory.file();
    let saved = fs::read(&file).expect("it was saved");

    let mut changed = saved.clone();
    changed[100] ^= 1;
    let mut newer = saved.clone();
    newer[8] = 99;
    for (broken, reason) in [
        (&changed[..], "checksum mismatch"),
        (&saved[..saved.len() / 2], "checksum mismatch"),
        (&newer[..], "unsupported snapshot format 99"),
        (b"", "not a snapshot"),
    ] {
        fs::write(&file, broken).expect("a writable file");
        assert_refused(&directory, reason);
        assert_refused(&directory, "move or delete it to start with empty counters");
        assert_eq!(fs::read(&file).expect("it is still there"), broken);
    }

    // The two ways out.
    fs::write(&file, &saved).expect("a writable file");
    let service = directory.start();
    assert_eq!(spend(&service, 4), [200, 200, 200, 429]);
    stop(service);
    fs::remove_file(&file).expect("it is there");
    assert_eq!(spend(&directory.start(), 1), [200]);
}

#[test]
fn a_directory_that_cannot_be_used_is_refused() {
    let directory = SnapshotDirectory::new();
    fs::create_dir(directory.file()).expect("a writable directory");
    assert_refused(&directory, "not a regular file");
}

#[test]
fn a_failing_save_is_reported_until_it_succeeds() {
    let directory = SnapshotDirectory::new();
    let service = directory.start();
    assert_eq!(status(&service)["warnings"], serde_json::json!([]));

    // A directory in the way of the temporary file.
    let obstacle = Path::new(&format!("{}.tmp", directory.file().display())).join("x");
    fs::create_dir_all(&obstacle).expect("a writable directory");
    wait::until_true(PATIENCE, "a failed save", || {
        let status = status(&service);
        let warning = status["warnings"][0].as_str().unwrap_or_default();
        warning.contains("cannot be saved") && status["store"]["snapshot"]["error"].is_string()
    });
    assert_eq!(spend(&service, 1), [200]);

    fs::remove_dir_all(obstacle.with_file_name("")).expect("it is there");
    wait_for_save(&service);
    let status = status(&service);
    assert_eq!(status["warnings"], serde_json::json!([]));
    assert_eq!(
        status["store"]["snapshot"]["error"],
        serde_json::Value::Null
    );
    service.wait_for_log("the snapshot is saved again");
    let failures = service.log().matches("cannot save the snapshot").count();
    assert_eq!(failures, 1, "{}", service.log());
}

#[test]
fn the_store_is_not_changed_by_a_reload() {
    let directory = SnapshotDirectory::new();
    let service = directory.start();
    spend(&service, 7);

    service.rewrite_config(&directory.yaml(", keys_max: 5"));
    let answer = reverse_proxy::send(service.admin, "POST", "/admin/reload", &[], b"");
    assert_eq!(answer.status, 422);
    assert!(
        answer.text().contains("restart the service"),
        "{}",
        answer.text()
    );
    assert_eq!(spend(&service, 4), [200, 200, 200, 429]);

    // Other settings are, and keep the counters.
    let yaml = directory.yaml("").replace("limit: 10", "limit: 20");
    service.rewrite_config(&yaml);
    let answer = reverse_proxy::send(service.admin, "POST", "/admin/reload", &[], b"");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(spend(&service, 11)[9..], [200, 429]);
}
