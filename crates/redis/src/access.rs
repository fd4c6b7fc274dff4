//! How a server is reached: address to a connection on which it can be asked.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::endpoint::{Address, Credentials};
use crate::failure::Cause;
use crate::resp::{self, Reply};
use crate::script::Script;
use crate::tls::Tls;

/// Bytes to and from a server.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection on which one command after the other can be asked.
pub(crate) struct Connection {
    pub(crate) stream: Box<dyn Duplex>,
    arrived: BytesMut,
    /// What is written leaves only when it is flushed.
    pub(crate) is_buffered: bool,
}

/// What is the same for every server of a store.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) credentials: Option<Credentials>,
    pub(crate) database: u32,
    pub(crate) tls: Option<Tls>,
    /// From an address to a server that answers.
    pub(crate) connect_timeout: Duration,
    /// The deadline of a decision.
    pub(crate) timeout: Duration,
    pub(crate) script: &'static Script,
}

/// Whom a visit is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    /// One of the servers that the credentials are for.
    Server,
    /// One that often has no password, and is told ours only when it asks.
    Sentinel,
}

/// What a server must be, beside reachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Whatever it is.
    Any,
    /// The primary of a group.
    Primary,
}

impl Access {
    /// A server that has answered a question within the deadline of a decision.
    pub(crate) async fn reach(&self, address: &Address, role: Role) -> Result<Connection, Cause> {
        let reached = timeout(self.connect_timeout, async {
            let mut connection = self.open(address).await?;
            self.introduce(&mut connection, self.credentials.as_ref())
                .await?;
            if role == Role::Primary {
                connection.is_primary().await?;
            }
            self.prepare(&mut connection).await?;
            Ok(connection)
        });
        reached
            .await
            .unwrap_or_else(|_| Err(Cause::new(format!("{address} did not answer in time"))))
    }

    /// A connection for a question or two about the topology: neither fast nor of any role, and
    /// with no database.
    pub(crate) async fn visit(&self, address: &Address, visit: Visit) -> Result<Connection, Cause> {
        let mut connection = self.open(address).await?;
        let Some(credentials) = &self.credentials else {
            return Ok(connection);
        };
        let is_closed =
            visit == Visit::Server || matches!(connection.ask(&[b"PING"]).await?, Reply::Error(_));
        if is_closed {
            authenticate(&mut connection, credentials).await?;
        }
        Ok(connection)
    }

    async fn open(&self, address: &Address) -> Result<Connection, Cause> {
        let Address { host, port } = address;
        let stream = TcpStream::connect((host.as_str(), *port)).await;
        let stream =
            stream.map_err(|error| Cause::new(format!("{address} cannot be reached: {error}")))?;
        // Small questions must not wait for company.
        stream.set_nodelay(true)?;
        let stream: Box<dyn Duplex> = match &self.tls {
            Some(tls) => tls.wrap(host, stream).await?,
            None => Box::new(stream),
        };
        Ok(Connection {
            stream,
            arrived: BytesMut::with_capacity(4 << 10),
            is_buffered: self.tls.is_some(),
        })
    }

    async fn introduce(
        &self,
        connection: &mut Connection,
        credentials: Option<&Credentials>,
    ) -> Result<(), Cause> {
        if let Some(credentials) = credentials {
            authenticate(connection, credentials).await?;
        }
        if self.database > 0 {
            let database = self.database.to_string();
            if let Reply::Error(text) = connection.ask(&[b"SELECT", database.as_bytes()]).await? {
                return Err(Cause::told_by_server(&text));
            }
        }
        Ok(())
    }

    /// Makes the script known, and sees whether the server answers within the deadline of a
    /// decision: one that does not would only make everybody wait. A server that does not let us
    /// load the script gets it with the first question.
    async fn prepare(&self, connection: &mut Connection) -> Result<(), Cause> {
        let loaded = connection
            .ask(&[b"SCRIPT", b"LOAD", self.script.source.as_bytes()])
            .await?;
        let asked = Instant::now();
        match (connection.ask(&[b"PING"]).await, loaded) {
            // One that is full says so to whatever comes first, and closes.
            (Ok(Reply::Error(text)), _) | (Err(_), Reply::Error(text)) => {
                Err(Cause::told_by_server(&text))
            }
            (Err(cause), _) => Err(cause),
            _ if asked.elapsed() > self.timeout => {
                Err(Cause::new("the server is slower than the deadline"))
            }
            _ => Ok(()),
        }
    }
}

impl Connection {
    /// Asks and waits for the answer. For questions off the way of requests.
    pub(crate) async fn ask(&mut self, words: &[&[u8]]) -> Result<Reply, Cause> {
        let mut out = BytesMut::new();
        resp::write_command(&mut out, words);
        self.stream.write_all(&out).await?;
        self.stream.flush().await?;
        loop {
            if let Some(reply) = resp::read_reply(&mut self.arrived)? {
                return Ok(reply);
            }
            if self.stream.read_buf(&mut self.arrived).await? == 0 {
                return Err(Cause::new("the server closed the connection"));
            }
        }
    }

    async fn is_primary(&mut self) -> Result<(), Cause> {
        let role = self.ask(&[b"ROLE"]).await?;
        match role
            .as_list()
            .and_then(|list| list.first())
            .and_then(Reply::as_text)
        {
            Some("master") => Ok(()),
            _ => Err(Cause::new("the server is not a primary")),
        }
    }
}

async fn authenticate(connection: &mut Connection, credentials: &Credentials) -> Result<(), Cause> {
    let Credentials { user, password } = credentials;
    let reply = match user {
        Some(user) => {
            connection
                .ask(&[b"AUTH", user.as_bytes(), password.as_bytes()])
                .await?
        }
        None => connection.ask(&[b"AUTH", password.as_bytes()]).await?,
    };
    match reply {
        Reply::Error(text) => Err(refused(&text, password)),
        _ => Ok(()),
    }
}

/// Why a server did not let us in. Should it quote the password, only the first word is repeated.
fn refused(error: &[u8], password: &str) -> Cause {
    let text = String::from_utf8_lossy(error);
    if text.contains(password) {
        return Cause::told_by_server(text.split(' ').next().unwrap_or_default().as_bytes());
    }
    Cause::told_by_server(error)
}

/// Shared by everything that reaches the servers of one store.
pub(crate) type SharedAccess = Arc<Access>;
