//! One server: its life cycle, and the commands for tests.

use std::fmt::{Display, Write as _};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::builder::Builder;
use super::control::Control;
use super::tls::Certificates;
use super::{Client, Flavor, Reply, binary};
use crate::ports::Port;
use crate::processes::Directory;
use crate::processes::Process;
use crate::wait;

const CONFIG_FILE: &str = "server.conf";
const LOG_FILE: &str = "server.log";
/// Files in which a server may have stored data. They are deleted before a restart.
const DATA: [&str; 2] = ["dump.rdb", "appendonlydir"];
/// How long a server may take to respond; milliseconds are usual on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How many ports are tried if other programs use them.
const PORTS_MAX: usize = 20;
/// How many keys are processed at once.
const BATCH: usize = 1_000;

/// A running server, killed when dropped.
///
/// Tests control it through a Unix socket and a reserved user, so that this works whatever the test
/// did to passwords and ports. The control connection counts towards `maxclients`.
#[derive(Debug)]
pub struct Server {
    // Fields are dropped in this order: the process before its directory, the port reservation
    // last.
    process: Mutex<Process>,
    directory: Directory,
    control: Control,
    certificates: Option<Certificates>,
    builder: Builder,
    port: Port,
}

impl Server {
    /// Starts a server with default settings.
    ///
    /// # Panics
    ///
    /// If its program is not found, or it exits instead of responding.
    pub fn start(flavor: Flavor) -> Self {
        Self::builder(flavor).start()
    }

    /// Configures a server before it starts.
    pub fn builder(flavor: Flavor) -> Builder {
        Builder::new(flavor)
    }

    pub(super) fn from_builder(builder: Builder) -> Self {
        let directory = Directory::create();
        let certificates = builder.certificates(&directory);
        let control = Control::new(&directory, &builder);

        for _ in 0..PORTS_MAX {
            let port = builder.port.map_or_else(Port::reserve, Port::chosen);
            directory.write(
                CONFIG_FILE,
                builder.file(port.number(), certificates.as_ref()),
            );

            let mut process = spawn(&builder, &directory);
            match wait_for_reply(&control, &directory, &mut process) {
                Ok(()) => {
                    let process = Mutex::new(process);
                    return Self {
                        process,
                        directory,
                        control,
                        certificates,
                        builder,
                        port,
                    };
                }
                // A program without a reservation has taken the port.
                Err(log) if builder.port.is_none() && log.contains("Address already in use") => {}
                Err(log) => give_up(&builder, &log),
            }
        }

        give_up(&builder, "all ports that were tried are in use")
    }

    /// The server software.
    pub fn flavor(&self) -> Flavor {
        self.builder.flavor
    }

    /// The address on which it listens.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// The URL for clients: `redis://` or `rediss://`, with the first user or the password of its
    /// builder.
    pub fn url(&self) -> String {
        let scheme = if self.builder.tls { "rediss" } else { "redis" };
        let login = match (self.builder.users.first(), &self.builder.password) {
            (Some(user), _) => format!("{}:{}@", encoded(&user.name), encoded(&user.password)),
            (None, Some(password)) => format!(":{}@", encoded(password)),
            (None, None) => String::new(),
        };
        format!("{scheme}://{login}{}", self.addr())
    }

    /// The certificate of the authority that signed the server's certificate.
    ///
    /// # Panics
    ///
    /// If the server was built without TLS.
    pub fn ca_pem(&self) -> String {
        let certificates = self
            .certificates
            .as_ref()
            .expect("the server was built with `.tls()`");
        fs::read_to_string(&certificates.ca).expect("the file exists as long as the server")
    }

    /// The directory of the server.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The content of the server's log.
    pub fn log(&self) -> String {
        read_log(&self.directory)
    }

    /// The id of its process, which changes with a restart.
    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Whether its process exists, frozen or not.
    pub fn is_running(&self) -> bool {
        self.process().ended().is_none()
    }

    /// Whether it is frozen.
    pub fn is_frozen(&self) -> bool {
        self.process().is_frozen()
    }

    /// Whether it can respond.
    pub(super) fn is_awake(&self) -> bool {
        self.is_running() && !self.is_frozen()
    }

    /// Stops the process (SIGSTOP) and returns when it is stopped. Its connections stay open, and
    /// the system still accepts new ones.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn freeze(&self) {
        self.process().freeze();
    }

    /// Continues a frozen process (SIGCONT).
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn thaw(&self) {
        self.process().thaw();
    }

    /// Kills the process (SIGKILL) and waits for its end. The port stays reserved, without a
    /// listener.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Kills the process if it is running and starts it again, on the same port, with the same
    /// configuration and without data. A cluster node keeps its identity and its view of the
    /// cluster, and a server under Sentinel its last role.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn restart(&self) {
        let mut process = self.process();
        process.kill();

        for name in DATA {
            let path = self.directory.path().join(name);
            let _absent = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }

        *process = spawn(&self.builder, &self.directory);
        if let Err(log) = wait_for_reply(&self.control, &self.directory, &mut process) {
            give_up(&self.builder, &log);
        }
    }

    /// Opens a connection without restrictions.
    ///
    /// # Panics
    ///
    /// If the server does not accept it.
    pub fn client(&self) -> Client {
        self.reach(self.control.connect())
    }

    /// Runs a command on a new connection. If the server closes it instead of replying, as Sentinel
    /// does on a role change, the command runs once more.
    ///
    /// # Panics
    ///
    /// If there is no reply. An error is a reply.
    pub fn command(&self, words: &[&str]) -> Reply {
        self.reach(self.control.call(words))
    }

    /// Runs a command that must succeed.
    pub(super) fn must(&self, words: &[&str]) -> Reply {
        let reply = self.command(words);
        assert!(reply.error().is_none(), "{words:?} failed: {reply:?}");
        reply
    }

    /// All keys, in no particular order.
    ///
    /// # Panics
    ///
    /// If the server does not reply.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let mut client = self.client();
        let mut keys = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let words = ["SCAN", &cursor, "COUNT", &BATCH.to_string()];
            let reply = self.reach(client.call(&words));
            let [next, found] = reply.items() else {
                self.unexpected(&reply)
            };

            keys.extend(
                found
                    .items()
                    .iter()
                    .filter_map(Reply::as_bytes)
                    .map(<[u8]>::to_vec),
            );

            next.as_str().unwrap_or("0").clone_into(&mut cursor);

            if cursor == "0" {
                // A scan may return a key twice while the hash table grows.
                keys.sort_unstable();
                keys.dedup();
                return keys;
            }
        }
    }

    /// The keys without an expiry.
    ///
    /// # Panics
    ///
    /// If the server does not reply.
    pub fn immortal_keys(&self) -> Vec<Vec<u8>> {
        let mut client = self.client();
        let mut immortal = Vec::new();

        for batch in self.keys().chunks(BATCH) {
            batch
                .iter()
                .for_each(|key| self.reach(client.send(&[b"PTTL", key])));

            for key in batch {
                if self.reach(client.receive()) == Reply::Int(-1) {
                    immortal.push(key.clone());
                }
            }
        }

        immortal
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        // A test that panicked while it held the lock has failed already; the rest only cleans up.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[expect(clippy::panic, reason = "a test cannot continue without the reply")]
    fn reach<T, E: Display>(&self, answer: Result<T, E>) -> T {
        answer
            .unwrap_or_else(|error| panic!("no reply from the server at {}: {error}", self.addr()))
    }

    #[expect(clippy::panic, reason = "a test cannot continue without the reply")]
    fn unexpected(&self, reply: &Reply) -> ! {
        panic!(
            "unexpected reply from the server at {}: {reply:?}",
            self.addr()
        )
    }
}

fn spawn(builder: &Builder, directory: &Directory) -> Process {
    let log = File::options()
        .create(true)
        .append(true)
        .open(directory.path().join(LOG_FILE));
    let log = log.expect("the server's directory is writable");
    let errors = log.try_clone().expect("a file can be opened twice");

    let mut command = Command::new(binary::find(builder.flavor));
    command
        .arg(CONFIG_FILE)
        .args(builder.is_sentinel().then_some("--sentinel"));
    command
        .current_dir(directory.path())
        .stdout(log)
        .stderr(errors);
    command.envs(
        builder
            .environment
            .iter()
            .map(|(name, value)| (name, value)),
    );

    Process::spawn(&mut command, directory.path())
}

/// Waits for the first reply on the Unix socket; the error is the log of a server that exited.
/// Every port is bound before the first reply, and only this server can send it.
fn wait_for_reply(
    control: &Control,
    directory: &Directory,
    process: &mut Process,
) -> Result<(), String> {
    wait::until(START_LIMIT, "a server to answer", || {
        if let Some(status) = process.ended() {
            return Some(Err(format!("{status}: {}", read_log(directory))));
        }

        control
            .call(&["PING"])
            .is_ok_and(|reply| reply == Reply::Status("PONG".into()))
            .then_some(Ok(()))
    })
}

fn read_log(directory: &Directory) -> String {
    let log = fs::read(directory.path().join(LOG_FILE)).unwrap_or_default();
    String::from_utf8_lossy(&log).into_owned()
}

#[expect(clippy::panic, reason = "a test cannot continue without its server")]
fn give_up(builder: &Builder, log: &str) -> ! {
    panic!("a {:?} server did not start: {log}", builder.flavor)
}

/// A name or password, percent-encoded for a URL.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _infallible = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn a_password_is_encoded_in_the_url() {
        assert_eq!(encoded("a-B.9_~"), "a-B.9_~");
        assert_eq!(encoded("p@ss:w/rd#%"), "p%40ss%3Aw%2Frd%23%25");
    }
}
