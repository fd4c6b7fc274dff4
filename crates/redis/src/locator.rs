//! How a link finds its server: by a fixed address, or by asking Sentinels for the primary.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::connector::{Connector, RespConnection};
use crate::endpoint::Address;
use crate::error::ServerError;
use crate::resp::RespValue;

/// How often the Sentinels are asked for the primary while the link is up. A former primary that is
/// isolated from the Sentinels may still be reachable for us, but what it decides will be lost.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// How a link finds its server.
pub(crate) enum ServerLocator {
    /// The server has this address.
    Address(Address),
    /// The server is the primary that these Sentinels report.
    Sentinel(SentinelGroup),
}

/// The Sentinels that monitor a group of servers.
pub(crate) struct SentinelGroup {
    sentinels: Vec<Address>,
    name: Arc<str>,
    /// The primary that was reported last.
    last_primary: Option<Address>,
}

impl ServerLocator {
    /// Finds the server and connects to it.
    pub(crate) async fn connect(
        &mut self,
        connector: &Arc<Connector>,
    ) -> Result<(Address, RespConnection), ServerError> {
        let (address, must_be_primary) = match self {
            Self::Address(address) => (address.clone(), false),
            Self::Sentinel(group) => (group.locate(connector).await?, true),
        };

        let connection = connector.within_timeout(&address, async {
            let mut connection = connector.connect(&address).await?;
            if must_be_primary {
                connection.require_primary().await?;
            }
            Ok(connection)
        });
        let connection = connection.await?;
        Ok((address, connection))
    }

    /// Completes when the server at this address is no longer the right one.
    pub(crate) async fn server_changed(&self, connector: &Arc<Connector>, current: &Address) {
        match self {
            Self::Address(_) => std::future::pending().await,

            Self::Sentinel(group) => loop {
                sleep(WATCH_INTERVAL).await;
                let primary = group.find_primary(connector).await;
                if primary.is_ok_and(|primary| primary != *current) {
                    return;
                }
            },
        }
    }
}

impl fmt::Display for ServerLocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Sentinel(group) => write!(f, "the primary of {}", group.name),
        }
    }
}

impl SentinelGroup {
    pub(crate) fn new(sentinels: Vec<Address>, name: &str) -> Self {
        Self {
            sentinels,
            name: name.into(),
            last_primary: None,
        }
    }

    /// The primary. If no Sentinel answers, it is the last known one, which may still be available.
    async fn locate(&mut self, connector: &Arc<Connector>) -> Result<Address, ServerError> {
        match self.find_primary(connector).await {
            Ok(primary) => Ok(self.last_primary.insert(primary).clone()),
            Err(error) => self.last_primary.clone().ok_or(error),
        }
    }

    /// The primary that most Sentinels report. One that is isolated from the others may report a
    /// former primary. They are asked in parallel, so that an unresponsive one does not delay the
    /// others.
    async fn find_primary(&self, connector: &Arc<Connector>) -> Result<Address, ServerError> {
        let mut queries = JoinSet::new();
        for sentinel in self.sentinels.clone() {
            let (connector, name) = (connector.clone(), self.name.clone());
            queries.spawn(async move {
                let query = query_primary(&connector, &sentinel, &name);
                connector.within_timeout(&sentinel, query).await
            });
        }

        let mut votes: BTreeMap<Address, usize> = BTreeMap::new();
        let mut last_error = ServerError::new("no Sentinel is configured");
        while let Some(reply) = queries.join_next().await {
            match reply.unwrap_or_else(|_| Err(ServerError::new("the runtime is shutting down"))) {
                Ok(primary) => {
                    let count = votes.entry(primary.clone()).or_default();
                    *count += 1;
                    if *count * 2 > self.sentinels.len() {
                        return Ok(primary);
                    }
                }
                Err(error) => last_error = error,
            }
        }

        // There is no absolute majority: the most frequent answer is the best one.
        let most_frequent = votes.into_iter().max_by_key(|(_, count)| *count);
        most_frequent.map(|(primary, _)| primary).ok_or(last_error)
    }
}

/// Asks one Sentinel for the primary of a group.
async fn query_primary(
    connector: &Connector,
    sentinel: &Address,
    name: &str,
) -> Result<Address, ServerError> {
    let mut connection = connector.open(sentinel).await?;
    // Sentinels often have no password.
    if connection.command(&[b"PING"], |_| ()).await.is_err() {
        connector.authenticate(&mut connection).await?;
    }

    let command: [&[u8]; 3] = [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name.as_bytes()];
    let primary = connection.command(&command, parse_primary).await;
    let primary =
        primary.map_err(|error| ServerError::new(format!("Sentinel {sentinel}: {error}")))?;
    primary.ok_or_else(|| {
        let text = format!("Sentinel {sentinel} does not know a group named {name}");
        ServerError::new(text)
    })
}

/// Parses the host and the port of a primary.
fn parse_primary(reply: &RespValue<'_>) -> Option<Address> {
    let [host, port] = reply.as_array()? else {
        return None;
    };
    let port = port.as_text()?.parse().ok()?;
    Some(Address::new(host.as_text()?, port))
}
