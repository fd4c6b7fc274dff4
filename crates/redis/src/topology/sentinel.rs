//! Sentinels: asks them for the primary of a group, and notices a failover.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::connector::{AuthPolicy, Connector, RequiredRole, RespConnection};
use crate::endpoint::Address;
use crate::error::ServerError;
use crate::link::ServerLink;
use crate::resp::RespValue;

/// How often the Sentinels are asked for the primary while the link is up. A former primary that is
/// isolated from the Sentinels may still be reachable for us, but what it decides will be lost.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The Sentinels that monitor a group of servers.
#[derive(Debug)]
pub(crate) struct SentinelGroup {
    addresses: Vec<Address>,
    name: String,
    /// The primary of the last successful connection.
    primary: Mutex<Option<Address>>,
}

impl SentinelGroup {
    pub(crate) fn new(addresses: Vec<Address>, name: String) -> Self {
        Self {
            addresses,
            name,
            primary: Mutex::new(None),
        }
    }

    /// The name of the monitored group.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Connects to the primary. If no Sentinel answers, the last known primary is tried, which may
    /// still be available.
    pub(crate) async fn connect_primary(
        self: &Arc<Self>,
        connector: &Arc<Connector>,
    ) -> Result<(Address, RespConnection), ServerError> {
        let address = match self.find_primary(connector).await {
            Ok(address) => address,
            Err(error) => self.primary.lock().clone().ok_or(error)?,
        };

        let connection = connector.connect(&address, RequiredRole::Primary).await?;
        *self.primary.lock() = Some(address.clone());
        Ok((address, connection))
    }

    /// The primary that most Sentinels report. One that is isolated from the others may report a
    /// former primary. They are asked in parallel, so that an unresponsive one does not delay the
    /// others.
    async fn find_primary(
        self: &Arc<Self>,
        connector: &Arc<Connector>,
    ) -> Result<Address, ServerError> {
        let mut queries = JoinSet::new();
        for address in self.addresses.clone() {
            let (sentinels, connector) = (self.clone(), connector.clone());
            queries.spawn(async move {
                let query = sentinels.query_primary(&address, &connector);
                let timed_out = || ServerError::new(format!("Sentinel {address} timed out"));
                timeout(connector.connect_timeout, query)
                    .await
                    .unwrap_or_else(|_| Err(timed_out()))
            });
        }

        let mut votes: BTreeMap<Address, usize> = BTreeMap::new();
        let mut last_error = ServerError::new("no Sentinel is configured");
        while let Some(reply) = queries.join_next().await {
            match reply.unwrap_or_else(|_| Err(ServerError::new("the runtime is shutting down"))) {
                Ok(primary) => {
                    let count = votes.entry(primary.clone()).or_default();
                    *count += 1;
                    if *count * 2 > self.addresses.len() {
                        return Ok(primary);
                    }
                }
                Err(error) => last_error = error,
            }
        }

        // There is no absolute majority: the most frequent answer is the best one.
        votes
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .map(|(primary, _)| primary)
            .ok_or(last_error)
    }

    /// Asks one Sentinel for the primary.
    async fn query_primary(
        &self,
        sentinel: &Address,
        connector: &Connector,
    ) -> Result<Address, ServerError> {
        let mut connection = connector
            .connect_for_topology(sentinel, AuthPolicy::IfRequired)
            .await?;
        let command: [&[u8]; 3] = [
            b"SENTINEL",
            b"GET-MASTER-ADDR-BY-NAME",
            self.name.as_bytes(),
        ];
        let reply = connection.command(&command).await?;

        let unknown = || {
            let name = &self.name;
            ServerError::new(format!(
                "Sentinel {sentinel} does not know a group named {name}"
            ))
        };
        match reply.as_array() {
            Some([host, port]) => {
                let port = port.as_text().and_then(|port| port.parse().ok());
                host.as_text()
                    .zip(port)
                    .map(|(host, port)| Address::new(host, port))
                    .ok_or_else(unknown)
            }
            _ if matches!(reply, RespValue::Error(_)) => {
                Err(ServerError::new(format!("{sentinel} is not a Sentinel")))
            }
            _ => Err(unknown()),
        }
    }

    /// Makes the link reconnect when the Sentinels report another primary. Ends when the link is
    /// dropped.
    pub(crate) async fn watch(self: Arc<Self>, link: Weak<ServerLink>, connector: Arc<Connector>) {
        loop {
            sleep(WATCH_INTERVAL).await;
            let Some(link) = link.upgrade() else { return };
            // While it is down, the link asks the Sentinels itself.
            if !link.is_up() {
                continue;
            }

            if let Ok(primary) = self.find_primary(&connector).await
                && self
                    .primary
                    .lock()
                    .as_ref()
                    .is_some_and(|known| *known != primary)
            {
                link.reconnect();
            }
        }
    }
}
