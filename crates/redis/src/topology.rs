//! Finds the server for a key: the only server, the primary that Sentinels report, or the owner of
//! the key's slot in a cluster. A task keeps the map of a cluster's slots current.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::connector::Connector;
use crate::endpoint::Address;
use crate::error::{CallError, ServerError};
use crate::link::ServerLink;
use crate::locator::ServerLocator;
use crate::log;
use crate::resp::RespValue;
use crate::wire::SLOTS;

/// Shortest pause between two refreshes of the map.
const REFRESH_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause between two refreshes while the cluster is not healthy and refreshes are requested
/// all the time.
const REFRESH_PAUSE_MAX: Duration = Duration::from_millis(400);
/// Refresh interval while a server is down or a slot has no owner: another server may take over.
const REFRESH_WHILE_DOWN: Duration = Duration::from_millis(200);
/// Refresh interval of a healthy cluster.
const REFRESH_WHILE_HEALTHY: Duration = Duration::from_secs(10);

/// The most links to servers that are known from redirections only.
const UNMAPPED_MAX: usize = 8;

/// The servers of a store. Dropping it closes the connections.
pub(crate) enum ServerTopology {
    /// One server, or the primary of a Sentinel group, which holds all keys.
    Single(Arc<ServerLink>),
    /// The servers of a cluster, each of which owns some of the slots.
    Cluster {
        links: Arc<ClusterLinks>,
        /// The task that keeps the links current. The set aborts it when it is dropped.
        _refresh_task: JoinSet<()>,
    },
}

impl ServerTopology {
    pub(crate) fn single(locator: ServerLocator, connector: &Arc<Connector>) -> Self {
        Self::Single(ServerLink::start(locator, connector))
    }

    pub(crate) fn cluster(seeds: Vec<Address>, connector: &Arc<Connector>) -> Self {
        let links = Arc::new(ClusterLinks {
            map: ArcSwap::default(),
            seeds,
            connector: connector.clone(),
            refresh_requested: Notify::new(),
            refresh_failure: Mutex::default(),
            unmapped: Mutex::default(),
        });
        let mut refresh_task = JoinSet::new();
        refresh_task.spawn_on(links.clone().keep_current(), &connector.runtime);

        Self::Cluster {
            links,
            _refresh_task: refresh_task,
        }
    }

    /// The link to the server that owns the slot.
    pub(crate) fn link(&self, slot: u16) -> Result<Arc<ServerLink>, CallError> {
        let links = match self {
            Self::Single(link) => return Ok(link.clone()),
            Self::Cluster { links, .. } => links,
        };

        let owner = links.map.load().owners.get(usize::from(slot)).cloned();
        owner.flatten().ok_or_else(|| {
            let error = "no server of the cluster is known to own the slot";
            CallError::NotSent(ServerError::new(error))
        })
    }

    /// Why calls about the slot cannot be sent; none if they can.
    pub(crate) fn down_error(&self, slot: u16) -> Option<CallError> {
        match self.link(slot) {
            Ok(link) => link.failure_after(0).map(CallError::NotSent),
            Err(error) => Some(error),
        }
    }

    /// The links to all servers that are known now.
    pub(crate) fn links(&self) -> Vec<Arc<ServerLink>> {
        match self {
            Self::Single(link) => vec![link.clone()],
            Self::Cluster { links, .. } => links.map.load().links.values().cloned().collect(),
        }
    }

    /// True when all servers are known, and the links to them are up.
    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::Single(link) => link.is_up(),
            Self::Cluster { links, .. } => links.is_complete(),
        }
    }

    /// Why a server or the slot map cannot be had, if this number of attempts has failed in a row.
    pub(crate) fn failure_after(&self, attempts: u32) -> Option<ServerError> {
        if let Self::Cluster { links, .. } = self
            && let Some((failed_attempts, error)) = &*links.refresh_failure.lock()
            && *failed_attempts >= attempts
        {
            return Some(error.clone());
        }
        let links = self.links();
        links.iter().find_map(|link| link.failure_after(attempts))
    }

    /// Requests a refresh of the slot map if the error shows that it is out of date, or that
    /// another server may take over from one that is unavailable.
    pub(crate) fn note_failure(&self, error: &CallError) {
        if let Self::Cluster { links, .. } = self
            && !matches!(
                error,
                CallError::Timeout
                    | CallError::Overdue
                    | CallError::Expired
                    | CallError::Overloaded
                    | CallError::Refused(_)
            )
        {
            links.refresh_requested.notify_one();
        }
    }

    /// The link for a call that was redirected, and so has certainly not run; and whether the call
    /// needs `ASKING` there. `None` after other errors, and outside of a cluster.
    pub(crate) fn redirect(&self, error: &CallError, slot: u16) -> Option<(Arc<ServerLink>, bool)> {
        let Self::Cluster { links, .. } = self else {
            return None;
        };
        match error {
            CallError::Moved(address) => links.link_to(address).map(|link| (link, false)),
            CallError::Ask(address) => links.link_to(address).map(|link| (link, true)),
            CallError::TryAgain => self.link(slot).ok().map(|link| (link, false)),
            _ => None,
        }
    }
}

/// The links to the servers of a cluster.
pub(crate) struct ClusterLinks {
    map: ArcSwap<SlotMap>,
    /// The configured endpoints, to be asked for the map when no other server is known.
    seeds: Vec<Address>,
    connector: Arc<Connector>,
    /// Notified when the map may be out of date.
    refresh_requested: Notify,
    /// How often in a row the map could not be refreshed, and why.
    refresh_failure: Mutex<Option<(u32, ServerError)>>,
    /// Links to servers that redirections name and that own no slot in our map yet.
    unmapped: Mutex<LinksByAddress>,
}

type LinksByAddress = BTreeMap<Address, Arc<ServerLink>>;

/// The owner of each slot.
#[derive(Default)]
struct SlotMap {
    links: LinksByAddress,
    /// Indexed by slot.
    owners: Vec<Option<Arc<ServerLink>>>,
}

/// The state of the cluster as one server reports it.
struct ClusterReport {
    ranges: Vec<SlotRange>,
    /// False if the server is isolated from the majority, or slots have no owner.
    is_healthy: bool,
}

/// The slots from `first` to `last`, inclusive, owned by one server.
struct SlotRange {
    first: u16,
    last: u16,
    owner: Address,
}

impl ClusterLinks {
    /// True when every slot has an owner and the links to all servers are up.
    fn is_complete(&self) -> bool {
        let map = self.map.load();
        !map.owners.is_empty()
            && map.owners.iter().all(Option::is_some)
            && map.links.values().all(|link| link.is_up())
    }

    /// Refreshes the map on request, frequently while the cluster is not healthy, and otherwise at
    /// long intervals.
    async fn keep_current(self: Arc<Self>) {
        let mut pause = REFRESH_PAUSE;
        loop {
            let error = self.refresh().await.err();
            error.iter().for_each(log::map_not_refreshed);
            {
                let mut failure = self.refresh_failure.lock();
                let attempts = failure.take().map_or(1, |(attempts, _)| attempts + 1);
                *failure = error.map(|error| (attempts, error));
            }
            sleep(pause).await;

            // While a server is down, every call to it requests a refresh. The pauses get longer,
            // so that this does not put load on the other servers.
            pause = if self.is_complete() {
                REFRESH_PAUSE
            } else {
                (pause * 2).min(REFRESH_PAUSE_MAX)
            };
            self.wait_for_refresh_reason().await;
        }
    }

    /// Completes when a refresh is requested, when the map is not complete, or after the refresh
    /// interval of a healthy cluster.
    async fn wait_for_refresh_reason(&self) {
        let mut waited = Duration::ZERO;

        while timeout(REFRESH_WHILE_DOWN, self.refresh_requested.notified())
            .await
            .is_err()
        {
            waited += REFRESH_WHILE_DOWN;
            if waited >= REFRESH_WHILE_HEALTHY || !self.is_complete() {
                return;
            }
        }
    }

    /// Asks the servers for the map, one after the other, until one reports a healthy cluster.
    /// Servers whose links are up are asked first.
    async fn refresh(&self) -> Result<(), ServerError> {
        let map = self.map.load_full();
        let (up, down): (Vec<_>, Vec<_>) = map.links.iter().partition(|(_, link)| link.is_up());
        let known = up.into_iter().chain(down).map(|(address, _)| address);
        let unknown_seeds = self
            .seeds
            .iter()
            .filter(|seed| !map.links.contains_key(seed));

        let mut last_error = ServerError::new("no server of the cluster is known");
        let mut unhealthy_ranges = None;
        for address in known.chain(unknown_seeds) {
            let query = self.query_map(address);
            match self.connector.within_timeout(address, query).await {
                Ok(report) if report.is_healthy => {
                    self.replace_map(&map, &report.ranges);
                    return Ok(());
                }
                // A server that is isolated from the others may have an outdated map. It is used
                // only if no other server answers.
                Ok(report) => unhealthy_ranges = unhealthy_ranges.or(Some(report.ranges)),
                Err(error) => last_error = error,
            }
        }

        let ranges = unhealthy_ranges.ok_or(last_error)?;
        self.replace_map(&map, &ranges);
        Ok(())
    }

    /// Asks one server for the map and for its view of the cluster's state.
    async fn query_map(&self, address: &Address) -> Result<ClusterReport, ServerError> {
        let mut connection = self.connector.open(address).await?;
        self.connector.authenticate(&mut connection).await?;

        let read_ranges = |reply: &RespValue<'_>| parse_ranges(reply, address);
        let ranges = connection.command(&[b"CLUSTER", b"SLOTS"], read_ranges);
        let no_cluster = || ServerError::new(format!("{address} is not part of a cluster"));
        let ranges = ranges.await?.ok_or_else(no_cluster)?;

        let read_health = |reply: &RespValue<'_>| {
            let info = reply.as_text();
            info.is_none_or(|info| !info.contains("cluster_state:fail"))
        };
        let is_healthy = connection.command(&[b"CLUSTER", b"INFO"], read_health);
        // If the server does not allow `CLUSTER INFO`, it counts as healthy.
        let is_healthy = is_healthy.await.unwrap_or(true);
        Ok(ClusterReport { ranges, is_healthy })
    }

    /// Replaces the map. The links to servers that remain in the cluster are kept.
    fn replace_map(&self, old: &SlotMap, ranges: &[SlotRange]) {
        let mut map = SlotMap {
            links: BTreeMap::new(),
            owners: vec![None; usize::from(SLOTS)],
        };
        for SlotRange { first, last, owner } in ranges {
            let link = map.links.entry(owner.clone()).or_insert_with(|| {
                let unmapped = || self.unmapped.lock().get(owner).cloned();
                old.links
                    .get(owner)
                    .cloned()
                    .or_else(unmapped)
                    .unwrap_or_else(|| self.start_link(owner))
            });
            for slot in *first..=(*last).min(SLOTS - 1) {
                map.owners[usize::from(slot)] = Some(link.clone());
            }
        }

        self.unmapped
            .lock()
            .retain(|address, _| !map.links.contains_key(address));
        for (address, link) in &old.links {
            if !map.links.contains_key(address) {
                // Its calls in flight must be completed.
                let (link, timeout) = (link.clone(), self.connector.timeout);
                self.connector.runtime.spawn(async move {
                    sleep(timeout * 2).await;
                    drop(link);
                });
            }
        }
        self.map.store(Arc::new(map));
    }

    /// The link to a server that a redirection names. A server that is just receiving its first
    /// slots is not in the map; it gets a link now, which later calls can use. `None` when there
    /// are too many of them.
    fn link_to(&self, address: &Address) -> Option<Arc<ServerLink>> {
        if let Some(link) = self.map.load().links.get(address) {
            return Some(link.clone());
        }

        let mut unmapped = self.unmapped.lock();
        if unmapped.len() >= UNMAPPED_MAX && !unmapped.contains_key(address) {
            return None;
        }
        let link = unmapped
            .entry(address.clone())
            .or_insert_with(|| self.start_link(address));
        Some(link.clone())
    }

    fn start_link(&self, address: &Address) -> Arc<ServerLink> {
        ServerLink::start(ServerLocator::Address(address.clone()), &self.connector)
    }
}

/// Parses the reply to `CLUSTER SLOTS`, which has an entry for each range.
fn parse_ranges(reply: &RespValue<'_>, queried: &Address) -> Option<Vec<SlotRange>> {
    let entries = reply.as_array()?;
    if entries.is_empty() || entries.len() > usize::from(SLOTS) {
        return None;
    }
    let ranges = entries.iter().map(|entry| parse_range(entry, queried));
    ranges.collect()
}

/// Parses an entry of `CLUSTER SLOTS`: the first slot, the last slot, and the primary as host, port
/// and more. A server that does not know its own address leaves the host empty, which means the
/// address at which it was asked.
fn parse_range(entry: &RespValue<'_>, queried: &Address) -> Option<SlotRange> {
    let [first, last, primary, ..] = entry.as_array()? else {
        return None;
    };
    let [host, port, ..] = primary.as_array()? else {
        return None;
    };

    let host = host
        .as_text()
        .filter(|host| !host.is_empty() && *host != "?")
        .unwrap_or(&queried.host);
    let integer = |value: &RespValue<'_>| u16::try_from(value.as_integer()?).ok();
    Some(SlotRange {
        first: integer(first)?,
        last: integer(last)?,
        owner: Address::new(host, integer(port)?),
    })
}
