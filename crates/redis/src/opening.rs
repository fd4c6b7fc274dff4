//! Opens a store and waits until it can decide, or says why it cannot.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::builder::RedisBuilder;
use crate::endpoint::RedisConfigError;
use crate::layout::LayoutError;
use crate::store::RedisStore;

/// A server that has failed this number of times in a row cannot be used. One failure may be due to
/// a busy machine.
const ATTEMPTS_MAX: u32 = 3;
/// The longest time to wait for all servers.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the state of the servers is read.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Why a store cannot be used. The text says what was found and what would be right, and never
/// contains a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisConnectError {
    /// The settings are invalid.
    #[error(transparent)]
    Config(#[from] RedisConfigError),
    /// A server cannot be used. The reason begins with one of these, where `SERVER` is
    /// `host:port`:
    ///
    /// - `cannot find the host "HOST" of the endpoint SERVER: ..`
    /// - `cannot connect to SERVER: Connection refused ..; no server listens there: ..`
    /// - `connecting to SERVER timed out after 200ms; ..`
    /// - `SERVER: the server requires a password and none is configured; ..: NOAUTH ..`
    /// - `SERVER: the server does not accept the user or the password of the endpoint; ..:
    ///   WRONGPASS ..`
    /// - `SERVER: the endpoint has a password and the server requires none; ..`
    /// - `SERVER: the user of the endpoint lacks a permission; ..: NOPERM ..`
    /// - `SERVER: invalid reply: not in the Redis protocol; ..`
    /// - `SERVER: the server closed the connection; if it requires TLS, use rediss://`
    /// - `SERVER: the server has version 5.0.7, which lacks commands that Tollgate needs; ..`
    /// - `SERVER: the server is part of a cluster, ..; open the store as a cluster: ..`
    /// - `SERVER: the server is slower than the timeout of 10ms`
    /// - `SERVER: server error: ..`, such as `LOADING` and `READONLY`
    #[error("cannot use the store: {reason}")]
    #[non_exhaustive]
    Unusable {
        /// What was found, and what would be right.
        reason: String,
    },
    /// Instances of another version use the store, and count apart from this one.
    #[error("{reason}")]
    #[non_exhaustive]
    OtherLayout {
        /// What was found, and what would be right.
        reason: String,
    },
}

impl RedisBuilder {
    /// Builds the store, and waits until all of its servers can decide: connected, with the script
    /// loaded, and a first call answered. Fails if a server cannot be used, such as one that
    /// refuses the password or is too old. Logs a warning if a server may forget counters, or does
    /// not say; see [`RedisStore::warnings`]. It must be awaited inside a Tokio runtime.
    pub async fn connect(self) -> Result<RedisStore, RedisConnectError> {
        let store = self.build()?;
        store.usable(PATIENCE).await?;
        Ok(store)
    }
}

impl RedisStore {
    /// Connects to a standalone server by its URL, such as `redis://127.0.0.1:6379`, and waits
    /// until it can decide; see [`RedisBuilder::connect`]. For other topologies and settings see
    /// [`RedisBuilder`].
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, RedisConnectError> {
        RedisBuilder::standalone(url).connect().await
    }

    /// Connects to a standalone server in the background, and succeeds even if the server cannot be
    /// used; see [`RedisBuilder::build`]. It must be called inside a Tokio runtime.
    pub fn connect_lazy(url: impl AsRef<str>) -> Result<Self, RedisConfigError> {
        RedisBuilder::standalone(url).build()
    }

    /// Waits until all servers can decide, at most for `patience`, or returns why one cannot. Unlike
    /// [`ready`](Self::ready), it gives up as soon as connecting to a server has failed three times
    /// in a row. The future must be awaited inside a Tokio runtime.
    pub async fn usable(&self, patience: Duration) -> Result<(), RedisConnectError> {
        let unusable = |reason| RedisConnectError::Unusable { reason };
        self.require_servers(patience).await.map_err(unusable)?;

        // The first call shows that the user may run the script.
        let mut reason = String::new();
        for _ in 0..ATTEMPTS_MAX {
            match self.announce_layout().await {
                Ok(()) => return Ok(()),
                Err(error @ LayoutError::Other { .. }) => {
                    let reason = error.to_string();
                    return Err(RedisConnectError::OtherLayout { reason });
                }
                Err(LayoutError::Store(error)) => reason = root_cause(&error),
            }
        }
        Err(unusable(reason))
    }

    /// Waits until the links to all servers are up.
    async fn require_servers(&self, patience: Duration) -> Result<(), String> {
        let settled = timeout(patience, async {
            loop {
                if self.router().topology.is_complete() {
                    return Ok(());
                }
                if let Some(error) = self.router().topology.failure_after(ATTEMPTS_MAX) {
                    return Err(error.to_string());
                }
                sleep(POLL_INTERVAL).await;
            }
        });
        settled
            .await
            .unwrap_or_else(|_| Err(format!("not all servers answered within {patience:?}")))
    }
}

/// The text of the first cause of an error.
fn root_cause(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}
