//! Establishes connections to servers: TCP, TLS, authentication, database and script.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};
use tollgate::Clock;

use crate::endpoint::{Address, Credentials};
use crate::error::{CallError, ServerError};
use crate::resp::{self, RespValue};
use crate::script::{MANUAL_TIME, SERVER_TIME, ScriptSet};
use crate::server_check::CheckReply;

/// How many `PING`s a server may answer too late before a connection to it is given up. One late
/// reply may be due to this process, which was not scheduled in time.
const PINGS_MAX: u32 = 3;

/// A byte stream to and from a server, with or without TLS.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A connection on which commands can be sent one after the other.
pub(crate) struct RespConnection {
    pub(crate) stream: Box<dyn ByteStream>,
    /// The socket below the stream; none in tests without one.
    pub(crate) socket: Option<std::net::TcpStream>,
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
    /// Bounds the time from the write of a call to the arrival of its reply.
    pub(crate) timeout: Duration,
    /// Bounds the time of a whole decision.
    pub(crate) decision_timeout: Duration,
    /// True when only calls of the same slot may share a script call.
    pub(crate) is_cluster: bool,
    /// Keys in two slots that no counter has, to find out whether a server accepts writes.
    pub(crate) probe_keys: [String; 2],
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
        let limit = self.connect_timeout;
        let timed_out = |_| {
            ServerError::new(format!(
                "connecting to {address} timed out after {limit:?}; check that the address is \
                 right and no firewall drops its packets"
            ))
        };
        timeout(limit, exchange).await.map_err(timed_out)?
    }

    /// Opens a connection that is ready for script calls, and reads what the server says of itself.
    /// Fails if the server does not answer a `PING` within the timeout, does not accept writes, or
    /// is too old.
    pub(crate) async fn connect(
        &self,
        address: &Address,
    ) -> Result<(RespConnection, CheckReply), ServerError> {
        let mut connection = self.open(address).await?;
        let prepared = self.prepare(&mut connection).await;
        let report = prepared.map_err(|error| error.at(address))?;
        Ok((connection, report))
    }

    async fn prepare(&self, connection: &mut RespConnection) -> Result<CheckReply, ServerError> {
        self.authenticate(connection).await?;
        // Before the script: a server that requires a password rejects a command of its length
        // without saying why.
        self.require_speed(connection).await?;

        if self.database > 0 {
            let database = self.database.to_string();
            let command: [&[u8]; 2] = [b"SELECT", database.as_bytes()];
            connection.command(&command, |_| ()).await?;
        }

        self.load_script(connection).await?;
        self.require_writes(connection).await?;
        let report = CheckReply::query(connection).await?;
        report.require_version()?;
        Ok(report)
    }

    /// Opens a connection on which nothing has been sent.
    pub(crate) async fn open(&self, address: &Address) -> Result<RespConnection, ServerError> {
        let Address { host, port } = address;
        let addresses = lookup_host((host.as_str(), *port)).await.map_err(|error| {
            ServerError::new(format!(
                "cannot find the host {host:?} of the endpoint {address}: {error}"
            ))
        })?;
        let addresses: Vec<_> = addresses.collect();
        let stream = TcpStream::connect(&*addresses).await.map_err(|error| {
            let advice = match error.kind() {
                ErrorKind::ConnectionRefused => {
                    "; no server listens there: start it, or correct the endpoint"
                }
                _ => "",
            };
            ServerError::new(format!("cannot connect to {address}: {error}{advice}"))
        })?;
        // Commands are small, and must not be held back to be sent with later ones.
        stream.set_nodelay(true)?;
        let stream = stream.into_std()?;
        let socket = Some(stream.try_clone()?);
        let stream = TcpStream::from_std(stream)?;

        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let stream = crate::tls::handshake(tls, host, stream).await?;
            return Ok(RespConnection::new(stream, socket));
        }
        Ok(RespConnection::new(stream, socket))
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

    /// Checks that the server answers within the timeout: with a slower server, every request would
    /// only wait for it.
    async fn require_speed(&self, connection: &mut RespConnection) -> Result<(), ServerError> {
        for _ in 0..PINGS_MAX {
            let sent_at = Instant::now();
            connection.command(&[b"PING"], |_| ()).await?;
            if sent_at.elapsed() <= self.timeout {
                return Ok(());
            }
        }

        let timeout = self.timeout;
        Err(ServerError::new(format!(
            "the server is slower than the timeout of {timeout:?}"
        )))
    }

    /// Fails if the server accepts no writes now, such as a read-only replica: it still answers
    /// reads, so a connection to it would look usable until the first charge. Fails, too, if the
    /// server is part of a cluster and the store was opened for one server.
    ///
    /// Deletes keys that do not exist, which changes nothing and is not replicated. A server of a
    /// cluster never accepts keys in two slots. A redirection of one key says nothing about writes.
    async fn require_writes(&self, connection: &mut RespConnection) -> Result<(), ServerError> {
        let [one, other] = &self.probe_keys;
        let mut command: Vec<&[u8]> = vec![b"DEL", one.as_bytes()];
        if !self.is_cluster {
            command.push(other.as_bytes());
        }

        let reply = connection.exchange(&command, |reply| match reply {
            RespValue::Error(text) if !self.is_cluster && is_of_cluster(text) => {
                Err(ServerError::part_of_cluster())
            }
            RespValue::Error(text) => match CallError::from_reply(text) {
                CallError::ServerUnusable(error) => Err(error),
                _ => Ok(()),
            },
            _ => Ok(()),
        });
        reply.await?
    }

    /// Loads the script that decides. If the server does not allow `SCRIPT LOAD`, the first call
    /// sends the source instead.
    async fn load_script(&self, connection: &mut RespConnection) -> Result<(), ServerError> {
        let script = &self.scripts().batch;
        let command: [&[u8]; 3] = [b"SCRIPT", b"LOAD", script.source.as_bytes()];
        connection.exchange(&command, |_| ()).await
    }
}

/// True when only a server of a cluster replies with this error.
fn is_of_cluster(error: &[u8]) -> bool {
    let codes: [&[u8]; 4] = [b"CROSSSLOT", b"MOVED", b"ASK ", b"CLUSTERDOWN"];
    codes.iter().any(|code| error.starts_with(code))
}

impl RespConnection {
    pub(crate) fn new(
        stream: impl ByteStream + 'static,
        socket: Option<std::net::TcpStream>,
    ) -> Self {
        Self {
            stream: Box::new(stream),
            socket,
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
            let read = self.stream.read_buf(&mut self.received).await;
            let is_reset = |error: &io::Error| error.kind() == ErrorKind::ConnectionReset;
            if matches!(read, Ok(0)) || read.as_ref().is_err_and(is_reset) {
                return Err(ServerError::new(
                    "the server closed the connection; if it requires TLS, use rediss://",
                ));
            }
            read?;
        }
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
