//! The task that asks one Sentinel for the primary.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::reports::{PrimaryReport, SentinelReports};
use super::subscription::EventSubscription;
use crate::connector::{Connector, RespConnection};
use crate::endpoint::Address;
use crate::error::ServerError;
use crate::resp::RespValue;

/// How soon a Sentinel is asked again after the primary may have changed. The pause doubles with
/// every further query, unless the Sentinel does not allow the subscription to its events.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// How often a Sentinel is asked while nothing changes.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Pause before another attempt to connect to a Sentinel.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);

/// Asks one Sentinel for the primary: at intervals, and immediately after an event.
pub(super) struct SentinelWatcher {
    pub(super) sentinel: Address,
    /// The index of the Sentinel in the reports.
    pub(super) index: usize,
    /// The name of the group of servers.
    pub(super) group: Arc<str>,
    pub(super) connector: Arc<Connector>,
    pub(super) reports: watch::Sender<SentinelReports>,
}

/// The connections to a Sentinel.
struct SentinelConnections {
    /// For queries, which are not possible on a connection with subscriptions.
    queries: RespConnection,
    /// `None` if the Sentinel does not allow it.
    events: Option<EventSubscription>,
}

impl SentinelWatcher {
    /// Watches the Sentinel until the task is aborted.
    pub(super) async fn run(self) {
        loop {
            let Err(error) = self.watch().await;
            self.report(Err(error));
            sleep(RECONNECT_PAUSE).await;
        }
    }

    /// Connects, and reports what the Sentinel replies until the connection fails.
    async fn watch(&self) -> Result<Infallible, ServerError> {
        let mut reports = self.reports.subscribe();
        let mut connections = self.connect().await?;
        let pause_max = match connections.events {
            Some(_) => PAUSE_MAX,
            None => PAUSE_MIN,
        };

        let mut pause = PAUSE_MIN;
        loop {
            let report = self.within_timeout(self.query(&mut connections)).await?;
            self.report(Ok(report));

            let has_changed = tokio::select! {
                event = connections.next_event(&self.group) => event.map(|()| true)?,
                has_changed = reports_changed(&mut reports, pause) => has_changed,
            };
            pause = if has_changed { PAUSE_MIN } else { pause * 2 }.min(pause_max);
        }
    }

    fn report(&self, report: Result<PrimaryReport, ServerError>) {
        self.reports
            .send_if_modified(|reports| reports.replace(self.index, report));
    }

    async fn within_timeout<T>(
        &self,
        exchange: impl Future<Output = Result<T, ServerError>>,
    ) -> Result<T, ServerError> {
        let result = self.connector.within_timeout(&self.sentinel, exchange);
        let at_sentinel = |error| ServerError::new(format!("Sentinel {}: {error}", self.sentinel));
        result.await.map_err(at_sentinel)
    }

    async fn connect(&self) -> Result<SentinelConnections, ServerError> {
        let queries = self.within_timeout(self.open()).await?;
        let subscribe = async { EventSubscription::open(self.open().await?).await };
        let events = self.within_timeout(subscribe).await?;
        Ok(SentinelConnections { queries, events })
    }

    async fn open(&self) -> Result<RespConnection, ServerError> {
        let mut connection = self.connector.open(&self.sentinel).await?;
        // Sentinels often have no password.
        if connection.command(&[b"PING"], |_| ()).await.is_err() {
            self.connector.authenticate(&mut connection).await?;
        }
        Ok(connection)
    }

    /// Asks for the primary, and checks that events still arrive.
    async fn query(
        &self,
        SentinelConnections { queries, events }: &mut SentinelConnections,
    ) -> Result<PrimaryReport, ServerError> {
        if let Some(events) = events {
            events.ping().await?;
        }

        // In this order: if the primary changes in between, the epoch is too early, not too late.
        let group = self.group.as_bytes();
        let state: [&[u8]; 3] = [b"SENTINEL", b"MASTER", group];
        let epoch = queries.command(&state, parse_epoch).await.ok().flatten();
        let address: [&[u8]; 3] = [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", group];
        let address = queries.command(&address, parse_address).await?;

        let address = address.ok_or_else(|| {
            let text = format!("does not know a group named {}", self.group);
            ServerError::new(text)
        })?;
        Ok(PrimaryReport {
            address,
            epoch: epoch.unwrap_or_default(),
        })
    }
}

impl SentinelConnections {
    async fn next_event(&mut self, group: &str) -> Result<(), ServerError> {
        match &mut self.events {
            Some(events) => events.next_event(group).await,
            None => pending().await,
        }
    }
}

/// Waits for this pause, or for a shorter one if a report changes meanwhile: the Sentinels do not
/// agree then. Returns whether one has changed.
async fn reports_changed(reports: &mut watch::Receiver<SentinelReports>, pause: Duration) -> bool {
    let start = Instant::now();
    tokio::select! {
        biased;
        changed = reports.changed() => {
            if changed.is_err() {
                return pending().await;
            }
            sleep_until(start + pause.min(start.elapsed() + PAUSE_MIN)).await;
            true
        }
        () = sleep_until(start + pause) => false,
    }
}

/// Parses the epoch of the state of a primary, which is an array of names and values.
fn parse_epoch(reply: &RespValue<'_>) -> Option<u64> {
    let (pairs, _) = reply.as_array()?.as_chunks();
    let epoch = pairs
        .iter()
        .find(|[name, _]| name.as_text() == Some("config-epoch"));
    epoch.and_then(|[_, epoch]| epoch.as_text()?.parse().ok())
}

/// Parses the host and the port of a primary.
fn parse_address(reply: &RespValue<'_>) -> Option<Address> {
    let [host, port] = reply.as_array()? else {
        return None;
    };
    let port = port.as_text()?.parse().ok()?;
    Some(Address::new(host.as_text()?, port))
}
