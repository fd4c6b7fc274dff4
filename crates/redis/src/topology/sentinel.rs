//! Sentinels: who the primary of a group is, and noticing when it is another.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::access::{Access, Connection, Role, SharedAccess, Visit};
use crate::endpoint::Address;
use crate::failure::Cause;
use crate::lane::Lane;
use crate::resp::Reply;

/// How often the Sentinels are asked whether the primary is still the same. A primary that is cut
/// off from them still answers us, and what it decides is lost.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// The Sentinels that watch one group.
#[derive(Debug)]
pub(crate) struct Sentinels {
    addresses: Vec<Address>,
    name: String,
    /// The primary that was reached last.
    primary: Mutex<Option<Address>>,
}

impl Sentinels {
    pub(crate) fn new(addresses: Vec<Address>, name: String) -> Self {
        Self {
            addresses,
            name,
            primary: Mutex::new(None),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A connection to the primary. When no Sentinel answers, the last one known is tried: it may
    /// well be there.
    pub(crate) async fn reach_primary(
        self: &Arc<Self>,
        access: &SharedAccess,
    ) -> Result<(Address, Connection), Cause> {
        let address = match self.ask_all(access).await {
            Ok(address) => address,
            Err(cause) => self.primary.lock().clone().ok_or(cause)?,
        };
        let connection = access.reach(&address, Role::Primary).await?;
        *self.primary.lock() = Some(address.clone());
        Ok((address, connection))
    }

    /// The primary by most of the Sentinels that know: one that is cut off from the others may name
    /// an old one. All are asked at once, because one that hangs must not hold up the others.
    async fn ask_all(self: &Arc<Self>, access: &SharedAccess) -> Result<Address, Cause> {
        let mut asked = JoinSet::new();
        for address in self.addresses.clone() {
            let (sentinels, access) = (self.clone(), access.clone());
            asked.spawn(async move {
                let late = Cause::new(format!("the Sentinel {address} did not answer in time"));
                let answer =
                    timeout(access.connect_timeout, sentinels.ask(&address, &access)).await;
                answer.unwrap_or(Err(late))
            });
        }
        let mut votes: BTreeMap<Address, usize> = BTreeMap::new();
        let mut last = Cause::new("there is no Sentinel");
        while let Some(answer) = asked.join_next().await {
            match answer.unwrap_or_else(|_| Err(Cause::new("the runtime is shutting down"))) {
                Ok(primary) => {
                    let count = votes.entry(primary.clone()).or_default();
                    *count += 1;
                    if *count * 2 > self.addresses.len() {
                        return Ok(primary);
                    }
                }
                Err(cause) => last = cause,
            }
        }
        votes
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .map(|(primary, _)| primary)
            .ok_or(last)
    }

    async fn ask(&self, sentinel: &Address, access: &Access) -> Result<Address, Cause> {
        let mut connection = access.visit(sentinel, Visit::Sentinel).await?;
        let reply = connection
            .ask(&[
                b"SENTINEL",
                b"GET-MASTER-ADDR-BY-NAME",
                self.name.as_bytes(),
            ])
            .await?;
        let unknown = || {
            Cause::new(format!(
                "the Sentinel {sentinel} knows no group named {}",
                self.name
            ))
        };
        match reply.as_list() {
            Some([host, port]) => {
                let port = port.as_text().and_then(|port| port.parse().ok());
                host.as_text()
                    .zip(port)
                    .map(|(host, port)| Address::new(host, port))
                    .ok_or_else(unknown)
            }
            _ if matches!(reply, Reply::Error(_)) => {
                Err(Cause::new(format!("{sentinel} is not a Sentinel")))
            }
            _ => Err(unknown()),
        }
    }

    /// Makes the lane look for the primary anew when the Sentinels name another, for as long as
    /// there is a lane.
    pub(crate) async fn watch(self: Arc<Self>, lane: Weak<Lane>, access: SharedAccess) {
        loop {
            sleep(WATCH_EVERY).await;
            let Some(lane) = lane.upgrade() else { return };
            if !lane.is_up() {
                continue;
            }
            if let Ok(primary) = self.ask_all(&access).await
                && self
                    .primary
                    .lock()
                    .as_ref()
                    .is_some_and(|known| *known != primary)
            {
                lane.kick();
            }
        }
    }
}
