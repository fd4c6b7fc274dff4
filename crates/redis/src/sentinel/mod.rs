//! Finds the primary of a group of servers by asking the Sentinels that monitor it.
//!
//! Each Sentinel has a task that asks it for the primary, whenever that may have changed. So all
//! instances leave a former primary at nearly the same time. Until they do, two servers count.

mod reports;
mod subscription;
mod watcher;

use std::future::pending;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use self::reports::{PrimaryReport, SentinelReports};
use self::watcher::SentinelWatcher;
use crate::connector::Connector;
use crate::endpoint::Address;
use crate::error::ServerError;

/// The Sentinels that monitor a group of servers.
pub(crate) struct SentinelGroup {
    pub(crate) name: Arc<str>,
    reports: watch::Receiver<SentinelReports>,
    /// The primary that was chosen last.
    primary: Option<PrimaryReport>,
    /// A task for each Sentinel. The set aborts them when it is dropped.
    _watchers: JoinSet<()>,
}

impl SentinelGroup {
    /// Starts to watch the Sentinels.
    pub(crate) fn start(sentinels: Vec<Address>, name: &str, connector: &Arc<Connector>) -> Self {
        let name: Arc<str> = name.into();
        let (sender, reports) = watch::channel(SentinelReports::new(sentinels.len()));

        let mut watchers = JoinSet::new();
        for (index, sentinel) in sentinels.into_iter().enumerate() {
            let watcher = SentinelWatcher {
                sentinel,
                index,
                group: name.clone(),
                connector: connector.clone(),
                reports: sender.clone(),
            };
            watchers.spawn_on(watcher.run(), &connector.runtime);
        }

        Self {
            name,
            reports,
            primary: None,
            _watchers: watchers,
        }
    }

    /// The primary. If no Sentinel replies, it is the last known one, which may still be available.
    pub(crate) async fn locate(&mut self) -> Result<Address, ServerError> {
        let reports = self.reports.wait_for(SentinelReports::suffice).await;
        let error = reports.map_or_else(
            |_| ServerError::new("the runtime is shutting down"),
            |reports| reports.error(),
        );

        self.choose_primary();
        let primary = self.primary.as_ref().ok_or(error)?;
        Ok(primary.address.clone())
    }

    /// Completes when the server at this address is no longer the primary.
    pub(crate) async fn primary_changed(&mut self, current: &Address) {
        loop {
            self.choose_primary();
            let primary = self.primary.as_ref();
            if primary.is_some_and(|primary| primary.address != *current) {
                return;
            }

            // The watchers end with the runtime only.
            if self.reports.changed().await.is_err() {
                return pending().await;
            }
        }
    }

    fn choose_primary(&mut self) {
        let reports = self.reports.borrow_and_update();
        if let Some(primary) = reports.primary_after(self.primary.as_ref()) {
            self.primary = Some(primary);
        }
    }
}
