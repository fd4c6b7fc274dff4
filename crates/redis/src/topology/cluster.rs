//! A cluster: which server has which slots, and keeping that true.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::{Route, SLOTS};
use crate::access::{SharedAccess, Visit};
use crate::endpoint::Address;
use crate::failure::Cause;
use crate::lane::Lane;
use crate::resp::Reply;
use crate::time::CallTime;

/// The least time between two looks at the map.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// The most, while something is wrong and a look after the other finds nothing new.
const LOOK_PAUSE_MAX: Duration = Duration::from_millis(400);
/// How often to look while a server is away or the map has holes: its slots may have gone to
/// another.
const LOOK_DOWN: Duration = Duration::from_millis(200);
/// How often to look when all is well.
const LOOK_IDLE: Duration = Duration::from_secs(10);

/// The most servers that others have named and that are not in the map.
const GUESTS_MAX: usize = 8;

/// The servers of a cluster. Dropping it ends them all.
#[derive(Debug)]
pub(crate) struct Cluster {
    inner: Arc<Inner>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Inner {
    map: ArcSwap<Map>,
    seeds: Vec<Address>,
    access: SharedAccess,
    call_time: CallTime,
    /// The map may be out of date.
    doubted: Notify,
    /// Servers that others named and that have no slot yet.
    guests: Mutex<BTreeMap<Address, Arc<Lane>>>,
    runtime: Handle,
}

/// Which lane each slot is in.
#[derive(Default)]
struct Map {
    lanes: BTreeMap<Address, Arc<Lane>>,
    /// By slot.
    owners: Vec<Option<Arc<Lane>>>,
}

/// What a server says of the cluster.
#[derive(Debug)]
struct Drawn {
    ranges: Vec<Range>,
    /// It is in touch with most of the others.
    is_well: bool,
}

/// Slots from the first to the last, both of them included, on one server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    owner: Address,
}

impl Cluster {
    pub(crate) fn start(seeds: Vec<Address>, access: SharedAccess, call_time: CallTime) -> Self {
        let map = ArcSwap::from_pointee(Map::default());
        let (guests, runtime) = (Mutex::default(), Handle::current());
        let inner = Arc::new(Inner {
            map,
            seeds,
            access,
            call_time,
            doubted: Notify::new(),
            guests,
            runtime,
        });
        let task = tokio::spawn(keep_true(inner.clone())).abort_handle();
        Self { inner, task }
    }

    /// The lane to the server that has the slot.
    pub(crate) fn lane(&self, slot: u16) -> Option<Arc<Lane>> {
        self.inner
            .map
            .load()
            .owners
            .get(usize::from(slot))
            .cloned()
            .flatten()
    }

    pub(crate) fn lanes(&self) -> Vec<Arc<Lane>> {
        self.inner.map.load().lanes.values().cloned().collect()
    }

    /// The lane to a server that another one named; `None` when it is not known yet.
    pub(crate) fn lane_to(&self, address: &Address) -> Option<Arc<Lane>> {
        let _inside = self.inner.runtime.enter();
        self.inner.lane_to(address)
    }

    /// Has the map looked at anew.
    pub(crate) fn doubt(&self) {
        self.inner.doubted.notify_one();
    }

    /// True when every slot has a server that can be asked.
    pub(crate) fn is_whole(&self) -> bool {
        self.inner.map.load().is_whole()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Looks at the map when it is doubted, often while something is wrong, and now and then.
async fn keep_true(inner: Arc<Inner>) {
    let mut pause = LOOK_PAUSE;
    loop {
        if let Err(cause) = inner.look().await {
            tracing::debug!(%cause, "the cluster's map is not to be had");
        }
        sleep(pause).await;
        // While a server is away, every request to it doubts the map; the others must not pay for
        // that.
        pause = if inner.map.load().is_whole() {
            LOOK_PAUSE
        } else {
            (pause * 2).min(LOOK_PAUSE_MAX)
        };
        inner.reason_to_look().await;
    }
}

impl Inner {
    /// Completes when the map is doubted, is not whole, or has not been looked at for long.
    async fn reason_to_look(&self) {
        let mut waited = Duration::ZERO;
        while timeout(LOOK_DOWN, self.doubted.notified()).await.is_err() {
            waited += LOOK_DOWN;
            if waited >= LOOK_IDLE || !self.map.load().is_whole() {
                return;
            }
        }
    }

    /// Asks one server after the other for the map, those that are well first.
    async fn look(&self) -> Result<(), Cause> {
        let map = self.map.load_full();
        let (up, down): (Vec<_>, Vec<_>) = map.lanes.iter().partition(|(_, lane)| lane.is_up());
        let known = up.into_iter().chain(down).map(|(address, _)| address);
        let unknown = self
            .seeds
            .iter()
            .filter(|seed| !map.lanes.contains_key(seed));
        let mut last = Cause::new("no server of the cluster is known");
        let mut doubtful = None;
        for address in known.chain(unknown) {
            match timeout(self.access.connect_timeout, self.ask(address)).await {
                Ok(Ok(Drawn {
                    ranges,
                    is_well: true,
                })) => {
                    self.redraw(&map, &ranges);
                    return Ok(());
                }
                // One that is cut off from the others still has the map of before.
                Ok(Ok(Drawn { ranges, .. })) => doubtful = doubtful.or(Some(ranges)),
                Ok(Err(cause)) => last = cause,
                Err(_) => last = Cause::new(format!("{address} did not answer in time")),
            }
        }
        let ranges = doubtful.ok_or(last)?;
        self.redraw(&map, &ranges);
        Ok(())
    }

    async fn ask(&self, address: &Address) -> Result<Drawn, Cause> {
        let mut connection = self.access.visit(address, Visit::Server).await?;
        let reply = connection.ask(&[b"CLUSTER", b"SLOTS"]).await?;
        let ranges = reply
            .as_list()
            .filter(|list| !list.is_empty() && list.len() <= usize::from(SLOTS));
        let ranges =
            ranges.and_then(|list| list.iter().map(|range| range_of(range, address)).collect());
        let ranges =
            ranges.ok_or_else(|| Cause::new(format!("{address} does not know a cluster")))?;
        let info = connection.ask(&[b"CLUSTER", b"INFO"]).await?;
        // One that may not say how it is, is taken to be well.
        let is_well = info
            .as_text()
            .is_none_or(|text| !text.contains("cluster_state:fail"));
        Ok(Drawn { ranges, is_well })
    }

    /// A new map; lanes to servers that are still there stay as they are.
    fn redraw(&self, old: &Map, ranges: &[Range]) {
        let mut map = Map {
            lanes: BTreeMap::new(),
            owners: vec![None; usize::from(SLOTS)],
        };
        for Range { first, last, owner } in ranges {
            let lane = map.lanes.entry(owner.clone()).or_insert_with(|| {
                let guest = || self.guests.lock().get(owner).cloned();
                old.lanes
                    .get(owner)
                    .cloned()
                    .or_else(guest)
                    .unwrap_or_else(|| self.start_lane(owner))
            });
            for slot in *first..=(*last).min(SLOTS - 1) {
                map.owners[usize::from(slot)] = Some(lane.clone());
            }
        }
        self.guests
            .lock()
            .retain(|address, _| !map.lanes.contains_key(address));
        for (address, lane) in &old.lanes {
            if !map.lanes.contains_key(address) {
                retire(lane.clone(), self.access.timeout);
            }
        }
        self.map.store(Arc::new(map));
    }

    /// The lane to a server that another one named. One that has no slot yet, but gets its first
    /// ones, is not in the map: it is connected now, for those who ask after us.
    fn lane_to(&self, address: &Address) -> Option<Arc<Lane>> {
        if let Some(lane) = self.map.load().lanes.get(address) {
            return Some(lane.clone());
        }
        let mut guests = self.guests.lock();
        if guests.len() >= GUESTS_MAX && !guests.contains_key(address) {
            return None;
        }
        Some(
            guests
                .entry(address.clone())
                .or_insert_with(|| self.start_lane(address))
                .clone(),
        )
    }

    fn start_lane(&self, address: &Address) -> Arc<Lane> {
        let route = Route::Direct(address.clone());
        Arc::new(Lane::start(
            route,
            self.access.clone(),
            self.call_time.clone(),
            true,
        ))
    }
}

/// Lets a lane that is no longer in the map end what it has begun.
fn retire(lane: Arc<Lane>, timeout: Duration) {
    tokio::spawn(async move {
        sleep(timeout * 2).await;
        drop(lane);
    });
}

/// The servers; the slots are too many to show.
impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lanes.keys()).finish()
    }
}

impl Map {
    fn is_whole(&self) -> bool {
        !self.owners.is_empty()
            && self.owners.iter().all(Option::is_some)
            && self.lanes.values().all(|lane| lane.is_up())
    }
}

/// One entry of `CLUSTER SLOTS`: first, last, then the primary as host, port and more. A server
/// that does not know its own address leaves the host out, and means the one it was asked at.
fn range_of(entry: &Reply, asked: &Address) -> Option<Range> {
    let [first, last, primary, ..] = entry.as_list()? else {
        return None;
    };
    let [host, port, ..] = primary.as_list()? else {
        return None;
    };
    let host = host
        .as_text()
        .filter(|host| !host.is_empty() && *host != "?")
        .unwrap_or(&asked.host);
    let slot = |reply: &Reply| {
        reply
            .as_number()
            .and_then(|number| u16::try_from(number).ok())
    };
    let port = port.as_number().and_then(|port| u16::try_from(port).ok())?;
    Some(Range {
        first: slot(first)?,
        last: slot(last)?,
        owner: Address::new(host, port),
    })
}
