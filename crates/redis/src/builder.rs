//! The builder of a store.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tollgate::Clock;
use tollgate::store::lease::LeaseTable;

use crate::connector::Connector;
use crate::endpoint::{Endpoint, RedisConfigError};
use crate::layout::{KEPT_FOR, LAYOUT, LayoutClaim};
use crate::locator::ServerLocator;
use crate::sentinel::SentinelGroup;
use crate::server_check::CHECK_INTERVAL;
use crate::store::{CallRouter, RedisStore};
use crate::topology::ServerTopology;
use crate::wire::CallEncoder;

const MILLISECOND: Duration = Duration::from_millis(1);
/// Longest key prefix, in bytes.
const PREFIX_MAX: usize = 128;
/// How long a whole decision may take by default.
const DECISION_TIMEOUT: Duration = Duration::from_millis(100);
/// The most retries after a redirection.
const RETRIES_MAX: u32 = 16;

/// Builds a [`RedisStore`].
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate_redis::RedisBuilder;
///
/// # async fn start() -> Result<(), tollgate_redis::RedisConnectError> {
/// let endpoints = [
///     "redis://limiter:secret@redis-1:6379",
///     "redis://limiter:secret@redis-2:6379",
/// ];
/// let store = RedisBuilder::cluster(endpoints)
///     .prefix("tollgate:prod:")
///     .timeout(Duration::from_millis(10))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedisBuilder {
    kind: Kind,
    endpoints: Result<Vec<Endpoint>, RedisConfigError>,
    prefix: String,
    timeout: Duration,
    /// `None` for the default.
    decision_timeout: Option<Duration>,
    connect_timeout: Duration,
    max_retries: u32,
    check_interval: Duration,
    #[cfg(feature = "tls")]
    ca_pem: Option<Vec<u8>>,
    clock: Option<Arc<dyn Clock>>,
    layout: &'static str,
    layout_kept_for: Duration,
}

#[derive(Clone, Debug)]
enum Kind {
    Standalone,
    Sentinel { group: String },
    Cluster,
}

impl RedisBuilder {
    /// Uses a single server.
    pub fn standalone(url: impl AsRef<str>) -> Self {
        Self::new(Kind::Standalone, [url])
    }

    /// Uses the primary of the group `name`, which the Sentinels at these URLs report.
    ///
    /// User and password are those of the primary. They are sent to a Sentinel only if it requires
    /// authentication.
    pub fn sentinel(
        urls: impl IntoIterator<Item = impl AsRef<str>>,
        name: impl Into<String>,
    ) -> Self {
        Self::new(Kind::Sentinel { group: name.into() }, urls)
    }

    /// Uses a cluster. The URLs are of some of its servers; the others are discovered.
    pub fn cluster(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self::new(Kind::Cluster, urls)
    }

    fn new(kind: Kind, urls: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self {
            kind,
            endpoints: urls.into_iter().map(|url| url.as_ref().parse()).collect(),
            prefix: "tollgate:".into(),
            timeout: Duration::from_millis(10),
            decision_timeout: None,
            connect_timeout: Duration::from_millis(200),
            max_retries: 3,
            check_interval: CHECK_INTERVAL,
            #[cfg(feature = "tls")]
            ca_pem: None,
            clock: None,
            layout: LAYOUT,
            layout_kept_for: KEPT_FOR,
        }
    }

    /// Sets the prefix of all keys, which defaults to `tollgate:`. Use a different prefix for each
    /// environment that shares a server.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets how long the store may take to reply to a call, from 1 ms to 10 s: from the write to
    /// the socket to the arrival of the reply there, even if this process looks later. Defaults to
    /// 10 ms. Beyond it, the limits' failure policies decide.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how long a whole decision may take, from 1 ms to 60 s, with the time that its calls wait
    /// to be sent and this process waits for a processor. Defaults to 100 ms, or to twice the
    /// [`timeout`](Self::timeout) if that is longer. It must not be shorter than the timeout.
    /// Beyond it, the limits' failure policies decide, unless the reply has arrived.
    #[must_use]
    pub fn decision_timeout(mut self, timeout: Duration) -> Self {
        self.decision_timeout = Some(timeout);
        self
    }

    /// How long a whole decision may take.
    fn whole_timeout(&self) -> Duration {
        let default = DECISION_TIMEOUT.max(self.timeout.saturating_mul(2));
        self.decision_timeout.unwrap_or(default)
    }

    /// Sets how long connecting to a server may take, from 10 ms to 60 s. Defaults to 200 ms.
    /// Connections are established in the background, so no decision waits for this.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how often a call may be sent again after a cluster has redirected it, at most 16.
    /// Defaults to 3. Only calls that have certainly not run are sent again.
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries.min(RETRIES_MAX);
        self
    }

    /// Sets the CA certificates to trust for `rediss://` endpoints, in PEM. Defaults to those of
    /// the system.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca_pem = Some(pem.into());
        self
    }

    /// Decides by this clock instead of the server's, for tests that set the time by hand.
    #[cfg(feature = "manual-time")]
    #[doc(hidden)]
    #[must_use]
    pub fn manual_time(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Checks the servers more often than every 30 seconds, for tests.
    #[cfg(feature = "manual-time")]
    #[doc(hidden)]
    #[must_use]
    pub fn check_interval(mut self, interval: Duration) -> Self {
        self.check_interval = interval;
        self
    }

    /// Announces this layout of what is stored, whose record lasts this long, for tests.
    #[cfg(feature = "manual-time")]
    #[doc(hidden)]
    #[must_use]
    pub fn layout(mut self, layout: &'static str, kept_for: Duration) -> Self {
        self.layout = layout;
        self.layout_kept_for = kept_for;
        self
    }

    /// Builds the store without waiting for its servers: it connects in the background, so this
    /// succeeds even if no server is available. Until one is, the limits' failure policies decide,
    /// whatever the reason. [`connect`](Self::connect) fails instead. It must be called inside a
    /// Tokio runtime.
    pub fn build(self) -> Result<RedisStore, RedisConfigError> {
        self.validate()?;
        let endpoints = self.endpoints()?;
        let connector = self.connector(&endpoints[0])?;

        let addresses = endpoints.iter().map(|endpoint| endpoint.address.clone());
        let topology = match &self.kind {
            Kind::Cluster => ServerTopology::cluster(addresses.collect(), &connector),
            Kind::Sentinel { group } => {
                let group = SentinelGroup::start(addresses.collect(), group, &connector);
                ServerTopology::single(ServerLocator::Sentinel(group), &connector)
            }
            Kind::Standalone => {
                let address = endpoints[0].address.clone();
                ServerTopology::single(ServerLocator::Address(address), &connector)
            }
        };

        let is_cluster = connector.is_cluster;
        let router = CallRouter {
            topology,
            encoder: CallEncoder {
                prefix: self.prefix,
                is_cluster,
            },
            connector,
            max_retries: self.max_retries,
            layout: LayoutClaim::new(self.layout, self.layout_kept_for, is_cluster),
        };
        let leases = self.clock.map_or_else(LeaseTable::default, LeaseTable::new);
        Ok(RedisStore::new(router, leases))
    }

    /// Validates the settings as far as possible without a runtime, certificates or a server.
    ///
    /// ```
    /// use tollgate_redis::RedisBuilder;
    ///
    /// let error = RedisBuilder::standalone("redis://h:70000").validate().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     r#"invalid endpoint port "70000": must be between 1 and 65535"#
    /// );
    /// ```
    pub fn validate(&self) -> Result<(), RedisConfigError> {
        let database = self.endpoints()?[0].database;
        if matches!(self.kind, Kind::Cluster) && database > 0 {
            let expected = "must be 0, the only database of a cluster";
            let found = database.to_string();
            return Err(RedisConfigError::invalid(
                "endpoint database",
                &found,
                expected,
            ));
        }

        // Braces would change the slots of the keys in a cluster.
        let is_allowed = |c: char| c.is_ascii_graphic() && c != '{' && c != '}';
        if self.prefix.len() > PREFIX_MAX || !self.prefix.chars().all(is_allowed) {
            let found: String = self.prefix.chars().take(PREFIX_MAX).collect();
            let expected = "must be at most 128 printable ASCII characters, without { and }";
            return Err(RedisConfigError::invalid("prefix", &found, expected));
        }

        for (field, found, min, max) in [
            ("timeout", self.timeout, MILLISECOND, 10_000),
            (
                "decision_timeout",
                self.whole_timeout(),
                self.timeout,
                60_000,
            ),
            (
                "connect_timeout",
                self.connect_timeout,
                10 * MILLISECOND,
                60_000,
            ),
        ] {
            let max = Duration::from_millis(max);
            if !(min..=max).contains(&found) {
                return Err(RedisConfigError::Time {
                    field,
                    found,
                    min,
                    max,
                });
            }
        }
        Ok(())
    }

    /// The endpoints: at least one, and they differ in their address only.
    fn endpoints(&self) -> Result<&[Endpoint], RedisConfigError> {
        let endpoints = self.endpoints.as_deref().map_err(Clone::clone)?;
        let first = endpoints.first().ok_or(RedisConfigError::NoEndpoint)?;

        for endpoint in endpoints {
            let setting = if endpoint.is_tls != first.is_tls {
                "TLS"
            } else if endpoint.credentials != first.credentials {
                "user or password"
            } else if endpoint.database != first.database {
                "database"
            } else {
                continue;
            };
            return Err(RedisConfigError::Mixed { setting });
        }
        Ok(endpoints)
    }

    fn connector(&self, first: &Endpoint) -> Result<Arc<Connector>, RedisConfigError> {
        Ok(Arc::new(Connector {
            credentials: first.credentials.clone(),
            database: first.database,
            #[cfg(feature = "tls")]
            tls: if first.is_tls {
                Some(crate::tls::connector(self.ca_pem.as_deref())?)
            } else {
                None
            },
            connect_timeout: self.connect_timeout,
            timeout: self.timeout,
            decision_timeout: self.whole_timeout(),
            is_cluster: matches!(self.kind, Kind::Cluster),
            probe_keys: ["{a}probe", "{b}probe"].map(|key| format!("{}{key}", self.prefix)),
            check_interval: self.check_interval,
            clock: self.clock.clone(),
            runtime: Handle::try_current().map_err(|_| RedisConfigError::NoRuntime)?,
        }))
    }
}
