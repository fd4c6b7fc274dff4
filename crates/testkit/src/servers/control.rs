//! The connection with which tests control a server: through a Unix socket and a user reserved for
//! them.
//!
//! The socket works with TLS as well, and no other server can respond on it. The user keeps its
//! permissions whatever a test does to other users, so that a test that rotates the password can
//! still inspect the result.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use super::builder::Builder;
use super::{Client, Reply};
use crate::processes::Directory;

/// The file name of the socket.
pub(super) const SOCKET: &str = "control";
/// The name of the user.
pub(super) const USER: &str = "testkit";

#[derive(Debug)]
pub(super) struct Control {
    socket: PathBuf,
    /// Whether to log in: Sentinels do not have this user.
    logs_in: bool,
}

impl Control {
    pub(super) fn new(directory: &Directory, builder: &Builder) -> Self {
        Self {
            socket: directory.path().join(SOCKET),
            logs_in: !builder.is_sentinel(),
        }
    }

    /// Opens a connection without restrictions.
    pub(super) fn connect(&self) -> io::Result<Client> {
        retry_once(|| {
            let mut client = self.open()?;
            self.check_login(&mut client)?;
            Ok(client)
        })
    }

    /// Runs a command on a new connection, and again if the server closes the first one instead of
    /// replying.
    pub(super) fn call(&self, words: &[&str]) -> io::Result<Reply> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        retry_once(|| {
            let mut client = self.open()?;
            // The command is sent together with the login, so that the server can hardly accept one
            // and lose the other.
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
            Err(io::Error::other(format!("cannot log in: {reply:?}")))
        }
    }
}

fn retry_once<T>(mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    act().or_else(|error| match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => act(),
        _ => Err(error),
    })
}
