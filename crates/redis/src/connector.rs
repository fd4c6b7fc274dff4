//! Establishes connections to servers: TCP, TLS, authentication, database and script.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};
use tollgate::Clock;

use crate::endpoint::{Address, Credentials};
use crate::error::{CallError, ServerError};
use crate::resp::{self, RespValue};
use crate::script::{MANUAL_TIME, SERVER_TIME, ScriptSet};

/// A byte stream to and from a server, with or without TLS.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A connection on which commands can be sent one after the other.
pub(crate) struct RespConnection {
    pub(crate) stream: Box<dyn ByteStream>,
    /// Received bytes that have not been parsed yet.
    received: BytesMut,
}

/// Connects to the servers of a store. Has the settings that all of their links share.
pub(crate) struct Connector {
    pub(crate) credentials: Option<Credentials>,
    pub(crate) database: u32,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<tokio_rustls::TlsConnector>,
    /// Bounds the time to establish a connection, including authentication.
    pub(crate) connect_timeout: Duration,
    /// Bounds the time that a decision may wait for the store.
    pub(crate) timeout: Duration,
    /// True when only calls of the same slot may share a script call.
    pub(crate) is_cluster: bool,
    /// A key that no counter has, to find out whether a server accepts writes.
    pub(crate) probe_key: String,
    /// How often a server is checked for settings that make it forget counters.
    pub(crate) check_interval: Duration,
    /// The clock by which the script decides. `None` for the server's own, except in tests.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// Runs the tasks of the store.
    pub(crate) runtime: Handle,
}

impl Connector {
    pub(crate) fn scripts(&self) -> &'static ScriptSet {
        match self.clock {
            None => &SERVER_TIME,
            Some(_) => &MANUAL_TIME,
        }
    }

    /// Fails if the exchange with the server takes longer than connecting may take.
    pub(crate) async fn within_timeout<T>(
        &self,
        address: &Address,
        exchange: impl Future<Output = Result<T, ServerError>>,
    ) -> Result<T, ServerError> {
        let timed_out = |_| ServerError::new(format!("connecting to {address} timed out"));
        timeout(self.connect_timeout, exchange)
            .await
            .map_err(timed_out)?
    }

    /// Opens a connection that is ready for script calls. Fails if the server does not answer a
    /// `PING` within the deadline of a decision, or does not accept writes.
    pub(crate) async fn connect(&self, address: &Address) -> Result<RespConnection, ServerError> {
        let mut connection = self.open(address).await?;
        let prepared = self.prepare(&mut connection).await;
        prepared.map_err(|error| error.at(address))?;
        Ok(connection)
    }

    async fn prepare(&self, connection: &mut RespConnection) -> Result<(), ServerError> {
        self.authenticate(connection).await?;

        if self.database > 0 {
            let database = self.database.to_string();
            let command: [&[u8]; 2] = [b"SELECT", database.as_bytes()];
            connection.command(&command, |_| ()).await?;
        }

        self.load_script(connection).await?;
        connection.require_writes(&self.probe_key).await
    }

    /// Opens a connection on which nothing has been sent.
    pub(crate) async fn open(&self, address: &Address) -> Result<RespConnection, ServerError> {
        let Address { host, port } = address;
        let stream = TcpStream::connect((host.as_str(), *port))
            .await
            .map_err(|error| ServerError::new(format!("cannot connect to {address}: {error}")))?;
        // Commands are small, and must not be held back to be sent with later ones.
        stream.set_nodelay(true)?;

        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let stream = crate::tls::handshake(tls, host, stream).await?;
            return Ok(RespConnection::new(stream));
        }
        Ok(RespConnection::new(stream))
    }

    /// Authenticates if there are credentials.
    pub(crate) async fn authenticate(
        &self,
        connection: &mut RespConnection,
    ) -> Result<(), ServerError> {
        let Some(Credentials { user, password }) = &self.credentials else {
            return Ok(());
        };

        let mut command: Vec<&[u8]> = vec![b"AUTH"];
        command.extend(user.as_deref().map(str::as_bytes));
        command.push(password.as_bytes());
        let authenticated = connection.command(&command, |_| ()).await;
        match authenticated {
            // Some servers repeat in their error what they were sent.
            Err(error) if error.to_string().contains(password) => {
                Err(ServerError::new("authentication failed"))
            }
            authenticated => authenticated,
        }
    }

    /// Loads the script that decides, and checks that the server answers within the deadline of a decision:
    /// with a slower server, every request would only wait for its deadline. If the server does
    /// not allow `SCRIPT LOAD`, the first call sends the source instead.
    async fn load_script(&self, connection: &mut RespConnection) -> Result<(), ServerError> {
        let script = &self.scripts().batch;
        let command: [&[u8]; 3] = [b"SCRIPT", b"LOAD", script.source.as_bytes()];
        let loaded = connection.command(&command, |_| ()).await;

        let sent_at = Instant::now();
        let pong = connection.command(&[b"PING"], |_| ()).await;
        // A server with too many clients replies to the first command with an error and then
        // closes the connection. That error is more useful than that of the `PING`.
        pong.map_err(|error| loaded.err().unwrap_or(error))?;

        if sent_at.elapsed() > self.timeout {
            return Err(ServerError::new("the server is slower than the timeout"));
        }
        Ok(())
    }
}

impl RespConnection {
    pub(crate) fn new(stream: impl ByteStream + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            received: BytesMut::with_capacity(4 << 10),
        }
    }

    /// Sends a command and reads its reply. Fails if the reply is an error. Not for the decision
    /// path, which pipelines.
    pub(crate) async fn command<T>(
        &mut self,
        arguments: &[&[u8]],
        read_reply: impl FnOnce(&RespValue<'_>) -> T,
    ) -> Result<T, ServerError> {
        let reply = self.exchange(arguments, |reply| match reply {
            RespValue::Error(text) => Err(ServerError::from_reply(text)),
            reply => Ok(read_reply(reply)),
        });
        reply.await?
    }

    /// Sends a command and reads its reply, which may be an error.
    pub(crate) async fn exchange<T>(
        &mut self,
        arguments: &[&[u8]],
        read_reply: impl FnOnce(&RespValue<'_>) -> T,
    ) -> Result<T, ServerError> {
        self.send(arguments).await?;
        self.receive(read_reply).await
    }

    /// Sends a command.
    pub(crate) async fn send(&mut self, arguments: &[&[u8]]) -> Result<(), ServerError> {
        let mut out = BytesMut::new();
        resp::write_command(&mut out, arguments);
        self.stream.write_all(&out).await?;
        Ok(self.stream.flush().await?)
    }

    /// Waits for the next reply or message. If it is cancelled, nothing is lost.
    pub(crate) async fn receive<T>(
        &mut self,
        read_reply: impl FnOnce(&RespValue<'_>) -> T,
    ) -> Result<T, ServerError> {
        loop {
            if let Some((reply, length)) = resp::read_value(&self.received)? {
                let result = read_reply(&reply);
                self.received.advance(length);
                return Ok(result);
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(ServerError::new("the server closed the connection"));
            }
        }
    }

    /// Fails if the server accepts no writes now, such as a read-only replica. It still answers
    /// reads, so a connection to it would look usable until the first charge.
    ///
    /// Deletes a key that does not exist, which changes nothing and is not replicated. Other
    /// errors, such as a redirection to another server of a cluster, say nothing about writes.
    async fn require_writes(&mut self, probe_key: &str) -> Result<(), ServerError> {
        let command: [&[u8]; 2] = [b"DEL", probe_key.as_bytes()];
        let reply = self.exchange(&command, |reply| match reply {
            RespValue::Error(text) => match CallError::from_reply(text) {
                CallError::ServerUnusable(error) => Err(error),
                _ => Ok(()),
            },
            _ => Ok(()),
        });
        reply.await?
    }

    pub(crate) async fn require_primary(&mut self) -> Result<(), ServerError> {
        let is_primary = |reply: &RespValue<'_>| {
            let role = reply.as_array().and_then(|array| array.first()?.as_text());
            role == Some("master")
        };

        if self.command(&[b"ROLE"], is_primary).await? {
            Ok(())
        } else {
            Err(ServerError::new("the server is not a primary"))
        }
    }
}
