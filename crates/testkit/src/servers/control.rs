//! How tests arrange a server: through a socket file and under a user name that are theirs alone.
//!
//! The file is there beside TLS, and no other server can answer on it. The user keeps its rights
//! whatever a test does to the others, so that a test which rotates the password can still look at
//! what it did.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use super::builder::Builder;
use super::{Client, Reply};
use crate::processes::Directory;

/// The name of the file.
pub(super) const SOCKET: &str = "control";
/// The name of the user.
pub(super) const USER: &str = "testkit";

#[derive(Debug)]
pub(super) struct Control {
    socket: PathBuf,
    /// Sentinels have no users of ours.
    logs_in: bool,
}

impl Control {
    pub(super) fn new(directory: &Directory, builder: &Builder) -> Self {
        Self {
            socket: directory.path().join(SOCKET),
            logs_in: !builder.is_sentinel(),
        }
    }

    /// A connection on which everything is allowed.
    pub(super) fn connect(&self) -> io::Result<Client> {
        once_more(|| {
            let mut client = self.open()?;
            self.check_login(&mut client)?;
            Ok(client)
        })
    }

    /// Runs a command on a connection of its own, twice if the server closes the first one instead
    /// of answering.
    pub(super) fn call(&self, words: &[&str]) -> io::Result<Reply> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        once_more(|| {
            let mut client = self.open()?;
            // Sent together with the login, there is hardly a moment at which one is taken and the
            // other lost.
            client.write(&words)?;
            self.check_login(&mut client)?;
            client.read()
        })
    }

    /// Connects and sends the login.
    fn open(&self) -> io::Result<Client> {
        let mut client = Client::connect_unix(&self.socket)?;
        if self.logs_in {
            client.write(&[b"AUTH", USER.as_bytes(), b"any"])?;
        }
        Ok(client)
    }

    fn check_login(&self, client: &mut Client) -> io::Result<()> {
        if !self.logs_in {
            return Ok(());
        }
        let reply = client.read()?;
        if reply.is_ok() {
            Ok(())
        } else {
            Err(io::Error::other(format!(
                "no login for the test: {reply:?}"
            )))
        }
    }
}

fn once_more<T>(mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    act().or_else(|error| match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => act(),
        _ => Err(error),
    })
}
