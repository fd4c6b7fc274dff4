//! A proxy that listens.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::kind::Kind;
use super::process::Process;
use super::template::{self, MAIN};
use crate::ports::Port;
use crate::processes::Directory;
use crate::wait;

/// Only something broken takes so long, or a machine with a hundred other things to do.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A proxy to be started.
#[derive(Clone, Debug)]
pub struct Builder {
    kind: Kind,
    text: String,
    words: BTreeMap<String, String>,
}

/// A proxy. Its process and its directory are gone when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    // The process goes before the directory it writes to.
    process: Process,
    directory: Directory,
    ports: BTreeMap<String, Port>,
}

impl Proxy {
    /// nginx, from what stands inside `http { }`.
    ///
    /// In this as in every configuration `@port@` is a free port, `@port:name@` is another one for
    /// each name, and any other `@word@` is what [`Builder::set`] says.
    pub fn nginx(http: impl Into<String>) -> Builder {
        Builder::new(Kind::Nginx, http.into())
    }

    /// `HAProxy`, from its whole configuration.
    pub fn haproxy(config: impl Into<String>) -> Builder {
        Builder::new(Kind::Haproxy, config.into())
    }

    /// Caddy, from a Caddyfile without global options. A site for every host is `http://:@port@`;
    /// there is no TLS and no administration.
    pub fn caddy(caddyfile: impl Into<String>) -> Builder {
        Builder::new(Kind::Caddy, caddyfile.into())
    }

    /// Envoy, from its whole configuration in YAML. It has one worker.
    pub fn envoy(yaml: impl Into<String>) -> Builder {
        Builder::new(Kind::Envoy, yaml.into())
    }

    /// Where it listens: the address of `@port@`.
    ///
    /// # Panics
    ///
    /// When that is not in the configuration.
    pub fn addr(&self) -> SocketAddr {
        self.addr_of(MAIN)
    }

    /// The address of `@port:name@`.
    ///
    /// # Panics
    ///
    /// When that is not in the configuration.
    pub fn addr_of(&self, name: &str) -> SocketAddr {
        self.ports
            .get(name)
            .expect("the configuration has a port of this name")
            .addr()
    }

    /// What it has written to its output so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The directory it runs in, with its configuration.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Ends it and returns what it had written to its output, for a test that has more to say than
    /// a drop does.
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

    /// Puts a value where the configuration says `@word@`.
    #[must_use]
    pub fn set(mut self, word: &str, value: impl Display) -> Self {
        self.words.insert(word.to_owned(), value.to_string());
        self
    }

    /// Starts it and waits until it listens on all of its ports.
    ///
    /// # Panics
    ///
    /// When it does not, with what it wrote to its output; when its program is missing; or when the
    /// configuration has no port, or a word that was not set.
    pub fn start(self) -> Proxy {
        let filled = template::fill(&self.text, &self.words);
        assert!(
            !filled.ports.is_empty(),
            "the configuration has no @port@, so nobody can tell when it is there"
        );
        let directory = Directory::create();
        let config = directory.write(self.kind.file_name(), &self.kind.complete(&filled.text));
        let process = Process::spawn(
            self.kind.command(&config, directory.path()),
            directory.path(),
        );
        let mut proxy = Proxy {
            process,
            directory,
            ports: filled.ports,
        };
        if let Err(reason) = proxy.wait_until_it_listens() {
            give_up(self.kind, &reason, &proxy.log());
        }
        proxy
    }
}

impl Proxy {
    fn wait_until_it_listens(&mut self) -> Result<(), String> {
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

#[expect(clippy::panic, reason = "a test cannot go on without its proxy")]
fn give_up(kind: Kind, reason: &str, log: &str) -> ! {
    panic!("{kind:?} did not start ({reason}): {log}")
}
