//! A running proxy.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::kind::Kind;
use super::process::LoggedProcess;
use super::template::{self, MAIN};
use crate::ports::Port;
use crate::processes::Directory;
use crate::wait;

/// How long a proxy may take to start on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A proxy that has not been started yet.
#[derive(Clone, Debug)]
pub struct Builder {
    kind: Kind,
    text: String,
    words: BTreeMap<String, String>,
}

/// A running proxy. Its process and its directory are removed when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    // Dropped before the directory it writes to.
    process: LoggedProcess,
    directory: Directory,
    ports: BTreeMap<String, Port>,
}

impl Proxy {
    /// nginx, with the content of `http { }`.
    ///
    /// In every configuration `@port@` is a free port, `@port:name@` is another one for each name,
    /// and any other `@word@` is replaced by the value of [`Builder::set`].
    pub fn nginx(http: impl Into<String>) -> Builder {
        Builder::new(Kind::Nginx, http.into())
    }

    /// `HAProxy`, with its whole configuration.
    pub fn haproxy(config: impl Into<String>) -> Builder {
        Builder::new(Kind::Haproxy, config.into())
    }

    /// Caddy, with a Caddyfile without global options. A site for every host is `http://:@port@`;
    /// TLS and the admin API are disabled.
    pub fn caddy(caddyfile: impl Into<String>) -> Builder {
        Builder::new(Kind::Caddy, caddyfile.into())
    }

    /// Envoy, with its whole configuration in YAML. It has one worker thread.
    pub fn envoy(yaml: impl Into<String>) -> Builder {
        Builder::new(Kind::Envoy, yaml.into())
    }

    /// The address of `@port@`.
    ///
    /// # Panics
    ///
    /// If the configuration does not have that port.
    pub fn addr(&self) -> SocketAddr {
        self.addr_of(MAIN)
    }

    /// The address of `@port:name@`.
    ///
    /// # Panics
    ///
    /// If the configuration does not have that port.
    pub fn addr_of(&self, name: &str) -> SocketAddr {
        self.ports
            .get(name)
            .expect("the configuration has a port with this name")
            .addr()
    }

    /// The output of the process so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The directory of the process, which contains its configuration.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Ends the process and returns its output.
    pub fn stop(self) -> String {
        let Self {
            process,
            directory,
            ports: _still_reserved,
        } = self;
        let log = process.log();
        drop(process);
        drop(directory);
        log
    }
}

impl Builder {
    fn new(kind: Kind, text: String) -> Self {
        Self {
            kind,
            text,
            words: BTreeMap::new(),
        }
    }

    /// Sets the value of a placeholder `@word@`.
    #[must_use]
    pub fn set(mut self, word: &str, value: impl Display) -> Self {
        self.words.insert(word.to_owned(), value.to_string());
        self
    }

    /// Starts the proxy and waits until it listens on all of its ports.
    ///
    /// # Panics
    ///
    /// If it does not, with its output; if its program is not found; or if the configuration has no
    /// port, or a placeholder without a value.
    pub fn start(self) -> Proxy {
        let filled = template::fill(&self.text, &self.words);
        assert!(
            !filled.ports.is_empty(),
            "the configuration has no @port@, so its start cannot be detected"
        );

        let directory = Directory::create();
        let config = directory.write(self.kind.file_name(), self.kind.complete(&filled.text));
        let process = LoggedProcess::spawn(
            self.kind.command(&config, directory.path()),
            directory.path(),
        );

        let mut proxy = Proxy {
            process,
            directory,
            ports: filled.ports,
        };

        if let Err(reason) = proxy.wait_for_ports() {
            give_up(self.kind, &reason, &proxy.log());
        }

        proxy
    }
}

impl Proxy {
    fn wait_for_ports(&mut self) -> Result<(), String> {
        let listens = wait::within(START_LIMIT, || {
            if let Some(status) = self.process.ended() {
                return Some(Err(status.to_string()));
            }

            let mut ports = self.ports.values();
            ports
                .all(|port| TcpStream::connect(port.addr()).is_ok())
                .then_some(Ok(()))
        });

        listens.unwrap_or_else(|| Err(format!("not listening after {START_LIMIT:?}")))
    }
}

#[expect(clippy::panic, reason = "a test cannot continue without its proxy")]
fn give_up(kind: Kind, reason: &str, log: &str) -> ! {
    panic!("{kind:?} did not start ({reason}): {log}")
}
