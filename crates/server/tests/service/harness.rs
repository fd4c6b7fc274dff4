//! Runs `tollgate serve` in a process of its own.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::reverse_proxy::{self, Response};
use testkit::wait;

/// Longer than any wait takes on a working machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

const BINARY: &str = env!("CARGO_BIN_EXE_tollgate");

/// A service process, which ends with the test.
pub(crate) struct Tollgate {
    process: Child,
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// The RESP port, if it is turned on.
    resp: Option<SocketAddr>,
    config: Option<PathBuf>,
    log: Arc<Mutex<String>>,
}

impl Tollgate {
    /// The service with its built-in configuration.
    pub(crate) fn start() -> Self {
        Self::launch(None, &[], &[])
    }

    /// The service with this configuration.
    pub(crate) fn with_config(yaml: &str) -> Self {
        Self::with(yaml, &[], &[])
    }

    /// The service with this configuration, more arguments and variables.
    pub(crate) fn with(yaml: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::launch(Some(write_config(yaml)), arguments, variables)
    }

    /// The service with this configuration and the RESP port.
    pub(crate) fn with_resp(yaml: &str) -> Self {
        Self::with(yaml, &["--resp", "127.0.0.1:0"], &[])
    }

    /// The service with its built-in configuration and a limit of open files.
    pub(crate) fn with_few_files(files: u32) -> Self {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("ulimit -n {files}; exec \"$0\" \"$@\""))
            .arg(BINARY);
        Self::launch_by(command, None, &[], &[])
    }

    /// Another binary of the service, with these arguments.
    pub(crate) fn with_binary(binary: &Path, arguments: &[&str]) -> Self {
        Self::launch_by(Command::new(binary), None, arguments, &[])
    }

    fn launch(config: Option<PathBuf>, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::launch_by(Command::new(BINARY), config, arguments, variables)
    }

    fn launch_by(
        mut command: Command,
        config: Option<PathBuf>,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        command.arg("serve").args(["--log-format", "json"]);
        for option in ["--http", "--grpc", "--admin"] {
            if !arguments.contains(&option) {
                command.args([option, "127.0.0.1:0"]);
            }
        }
        if let Some(config) = &config {
            command.arg("--config").arg(config);
        }
        command.args(arguments).envs(variables.iter().copied());
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        let log = Arc::default();
        keep_log(
            process.stderr.take().expect("it is piped"),
            Arc::clone(&log),
        );
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let mut find = |name: &str| -> SocketAddr {
            let line = lines.by_ref().find_map(|line| {
                let line = line.expect("text");
                line.trim_start()
                    .strip_prefix(name)
                    .and_then(|rest| rest.trim().split_once("://"))
                    .map(|(_scheme, address)| address.to_owned())
            });
            let shown = || {
                log.lock()
                    .expect("nothing panics while it is locked")
                    .clone()
            };
            line.ok_or_else(|| format!("no address of {name}: {}", shown()))
                .expect("a service that starts")
                .parse()
                .expect("an address")
        };
        let (http, grpc, admin) = (find("http "), find("grpc "), find("admin "));
        let resp = arguments.contains(&"--resp").then(|| find("resp "));
        Self {
            process,
            http,
            grpc,
            admin,
            resp,
            config,
            log,
        }
    }

    /// The address of the RESP port.
    pub(crate) fn resp(&self) -> SocketAddr {
        self.resp.expect("the service was started with --resp")
    }

    /// Sends a check.
    pub(crate) fn check(&self, body: &str) -> Response {
        self.post("/v1/check", body)
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Response {
        reverse_proxy::send(
            self.http,
            "POST",
            path,
            &[("content-type", "application/json")],
            body.as_bytes(),
        )
    }

    /// Replaces the configuration file.
    pub(crate) fn rewrite_config(&self, yaml: &str) {
        let path = self
            .config
            .as_ref()
            .expect("the service was started with a configuration");
        // Rename, so that the file is replaced atomically.
        let next = path.with_extension("next");
        std::fs::write(&next, yaml).expect("a writable directory");
        std::fs::rename(next, path).expect("the same directory");
    }

    pub(crate) fn config_path(&self) -> &PathBuf {
        self.config
            .as_ref()
            .expect("the service was started with a configuration")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal, as in `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.pid().to_string())
            .status();
        assert!(sent.expect("there is a kill").success());
    }

    /// Everything logged so far.
    pub(crate) fn log(&self) -> String {
        self.log
            .lock()
            .expect("nothing panics while it is locked")
            .clone()
    }

    /// Waits until a line with this text was logged.
    pub(crate) fn wait_for_log(&self, text: &str) {
        wait::until_true(PATIENCE, &format!("the log to say {text:?}"), || {
            self.log().contains(text)
        });
    }

    /// Waits for the end of the process.
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        wait::until(PATIENCE, "the service to end", || {
            self.process.try_wait().expect("it is ours")
        })
    }
}

impl Drop for Tollgate {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
        if let Some(config) = &self.config {
            drop(std::fs::remove_dir_all(
                config.parent().expect("a directory of its own"),
            ));
        }
    }
}

/// Writes a configuration file into a new directory.
pub(crate) fn write_config(yaml: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!(
        "tollgate-test-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Relaxed)
    );
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory).expect("a writable directory");
    let file = directory.join("tollgate.yaml");
    std::fs::write(&file, yaml).expect("a writable directory");
    file
}

fn keep_log(mut from: ChildStderr, into: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..read]);
            into.lock()
                .expect("nothing panics while it is locked")
                .push_str(&text);
        }
    });
}
