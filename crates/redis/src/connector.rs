//! Establishes connections to servers: TCP, TLS, authentication, database and script.

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::endpoint::{Address, Credentials};
use crate::error::ServerError;
use crate::resp::{self, RespValue};
use crate::script::Script;
use crate::tls::Tls;

/// A byte stream to and from a server, with or without TLS.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A connection on which commands can be sent one after the other.
pub(crate) struct RespConnection {
    pub(crate) stream: Box<dyn ByteStream>,
    /// Received bytes that have not been parsed yet.
    received: BytesMut,
    /// True when written bytes are sent only after a flush, as with TLS.
    pub(crate) is_buffered: bool,
}

/// The connection settings shared by all servers of a store.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) credentials: Option<Credentials>,
    pub(crate) database: u32,
    pub(crate) tls: Option<Tls>,
    /// Bounds the time to establish a connection, including authentication.
    pub(crate) connect_timeout: Duration,
    /// Bounds the time that a decision may wait for the store.
    pub(crate) timeout: Duration,
    pub(crate) script: &'static Script,
}

/// When to send the credentials to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthPolicy {
    /// Always: the credentials are for this server.
    Always,
    /// Only if the server requires authentication. Sentinels often have no password.
    IfRequired,
}

/// The replication role that a server must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequiredRole {
    Any,
    Primary,
}

impl Connector {
    /// Opens a connection that is ready for script calls. Fails if the server does not have the
    /// role, or does not answer a `PING` within the deadline of a decision.
    pub(crate) async fn connect(
        &self,
        address: &Address,
        role: RequiredRole,
    ) -> Result<RespConnection, ServerError> {
        let connected = timeout(self.connect_timeout, async {
            let mut connection = self.open(address).await?;
            self.log_in(&mut connection).await?;
            if role == RequiredRole::Primary {
                connection.require_primary().await?;
            }

            self.load_script(&mut connection).await?;
            Ok(connection)
        });

        connected.await.unwrap_or_else(|_| {
            Err(ServerError::new(format!(
                "connecting to {address} timed out"
            )))
        })
    }

    /// Opens a connection for a few commands about the topology. It has no script, and no database
    /// is selected.
    pub(crate) async fn connect_for_topology(
        &self,
        address: &Address,
        auth: AuthPolicy,
    ) -> Result<RespConnection, ServerError> {
        let mut connection = self.open(address).await?;
        let Some(credentials) = &self.credentials else {
            return Ok(connection);
        };

        let needs_auth = auth == AuthPolicy::Always
            || matches!(connection.command(&[b"PING"]).await?, RespValue::Error(_));
        if needs_auth {
            authenticate(&mut connection, credentials).await?;
        }
        Ok(connection)
    }

    async fn open(&self, address: &Address) -> Result<RespConnection, ServerError> {
        let Address { host, port } = address;
        let stream = TcpStream::connect((host.as_str(), *port))
            .await
            .map_err(|error| ServerError::new(format!("cannot connect to {address}: {error}")))?;
        // Commands are small, and must not be held back to be sent with later ones.
        stream.set_nodelay(true)?;

        let stream: Box<dyn ByteStream> = match &self.tls {
            Some(tls) => tls.wrap(host, stream).await?,
            None => Box::new(stream),
        };
        Ok(RespConnection {
            stream,
            received: BytesMut::with_capacity(4 << 10),
            is_buffered: self.tls.is_some(),
        })
    }

    /// Authenticates if there are credentials, and selects the database.
    async fn log_in(&self, connection: &mut RespConnection) -> Result<(), ServerError> {
        if let Some(credentials) = &self.credentials {
            authenticate(connection, credentials).await?;
        }

        if self.database > 0 {
            let database = self.database.to_string();
            let reply = connection
                .command(&[b"SELECT", database.as_bytes()])
                .await?;
            if let RespValue::Error(text) = reply {
                return Err(ServerError::from_reply(&text));
            }
        }
        Ok(())
    }

    /// Loads the script, and checks that the server answers within the deadline of a decision:
    /// with a slower server, every request would only wait for its deadline. If the server does
    /// not allow `SCRIPT LOAD`, the first call sends the source instead.
    async fn load_script(&self, connection: &mut RespConnection) -> Result<(), ServerError> {
        let loaded = connection
            .command(&[b"SCRIPT", b"LOAD", self.script.source.as_bytes()])
            .await?;

        let sent_at = Instant::now();
        match (connection.command(&[b"PING"]).await, loaded) {
            // A server with too many clients replies to the first command with an error and then
            // closes the connection. That error is more useful than that of the `PING`.
            (Ok(RespValue::Error(text)), _) | (Err(_), RespValue::Error(text)) => {
                Err(ServerError::from_reply(&text))
            }
            (Err(error), _) => Err(error),
            _ if sent_at.elapsed() > self.timeout => {
                Err(ServerError::new("the server is slower than the timeout"))
            }
            _ => Ok(()),
        }
    }
}

impl RespConnection {
    /// Sends a command and waits for its reply. Not for the decision path, which pipelines.
    pub(crate) async fn command(&mut self, arguments: &[&[u8]]) -> Result<RespValue, ServerError> {
        let mut out = BytesMut::new();
        resp::write_command(&mut out, arguments);
        self.stream.write_all(&out).await?;
        self.stream.flush().await?;

        loop {
            if let Some(reply) = resp::read_value(&mut self.received)? {
                return Ok(reply);
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(ServerError::new("the server closed the connection"));
            }
        }
    }

    async fn require_primary(&mut self) -> Result<(), ServerError> {
        let reply = self.command(&[b"ROLE"]).await?;
        let role = reply
            .as_array()
            .and_then(|array| array.first())
            .and_then(RespValue::as_text);

        match role {
            Some("master") => Ok(()),
            _ => Err(ServerError::new("the server is not a primary")),
        }
    }
}

async fn authenticate(
    connection: &mut RespConnection,
    credentials: &Credentials,
) -> Result<(), ServerError> {
    let Credentials { user, password } = credentials;
    let password_bytes = password.as_bytes();
    let reply = match user {
        Some(user) => {
            connection
                .command(&[b"AUTH", user.as_bytes(), password_bytes])
                .await?
        }
        None => connection.command(&[b"AUTH", password_bytes]).await?,
    };

    match reply {
        RespValue::Error(text) => Err(auth_error(&text, password)),
        _ => Ok(()),
    }
}

/// The error of a failed authentication. If the server's text contains the password, only the
/// error code is repeated.
fn auth_error(error: &[u8], password: &str) -> ServerError {
    let text = String::from_utf8_lossy(error);
    if text.contains(password) {
        let code = text.split(' ').next().unwrap_or_default();
        return ServerError::from_reply(code.as_bytes());
    }
    ServerError::from_reply(error)
}
