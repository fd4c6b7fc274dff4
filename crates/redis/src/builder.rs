//! Making a store.

use std::sync::Arc;
use std::time::Duration;

use crate::access::{Access, SharedAccess};
use crate::endpoint::{Endpoint, RedisConfigError};
use crate::lane::Lane;
use crate::script::{Script, TimeSource};
use crate::store::RedisStore;
use crate::time::CallTime;
use crate::tls::Tls;
use crate::topology::{Cluster, Route, Sentinels, Topology};
use crate::wire::Keys;

const PREFIX_MAX: usize = 128;

/// How to reach a store, before it is checked.
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate_redis::RedisBuilder;
///
/// # async fn start() -> Result<(), tollgate_redis::RedisConfigError> {
/// let store = RedisBuilder::cluster(["redis://limiter:secret@redis-1:6379", "redis://limiter:secret@redis-2:6379"])
///     .prefix("tollgate:prod:")
///     .timeout(Duration::from_millis(10))
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedisBuilder {
    kind: Kind,
    endpoints: Vec<Result<Endpoint, RedisConfigError>>,
    prefix: String,
    timeout: Duration,
    connect_timeout: Duration,
    max_retries: u32,
    ca_pem: Option<Vec<u8>>,
    call_time: CallTime,
}

#[derive(Clone, Debug)]
enum Kind {
    Standalone,
    Sentinel { name: String },
    Cluster,
}

impl RedisBuilder {
    /// One server.
    pub fn standalone(url: impl AsRef<str>) -> Self {
        Self::new(Kind::Standalone, [url])
    }

    /// The primary of the group with this name, as these Sentinels know it. User and password are
    /// those of the servers; they are told to a Sentinel only when it asks.
    pub fn sentinel(
        urls: impl IntoIterator<Item = impl AsRef<str>>,
        name: impl Into<String>,
    ) -> Self {
        Self::new(Kind::Sentinel { name: name.into() }, urls)
    }

    /// A cluster that these servers are part of.
    pub fn cluster(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self::new(Kind::Cluster, urls)
    }

    fn new(kind: Kind, urls: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self {
            kind,
            endpoints: urls.into_iter().map(|url| url.as_ref().parse()).collect(),
            prefix: "tollgate:".into(),
            timeout: Duration::from_millis(10),
            connect_timeout: Duration::from_millis(200),
            max_retries: 3,
            ca_pem: None,
            call_time: CallTime::Server,
        }
    }

    /// What every key begins with; `tollgate:` if nothing is said. One for each environment that
    /// shares a server.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long one decision may wait for the store; 10 ms if nothing is said.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long reaching a server may take, off the way of requests; 200 ms if nothing is said.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How often an attempt that certainly did not run is made again, because its slot has moved; 3
    /// if nothing is said.
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries.min(16);
        self
    }

    /// The certificates to trust for `rediss://`, in PEM; those of the system if nothing is said.
    #[must_use]
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca_pem = Some(pem.into());
        self
    }

    /// Decides by this clock instead of the server's, for tests that move time by hand.
    #[cfg(feature = "manual-time")]
    #[doc(hidden)]
    #[must_use]
    pub fn manual_time(mut self, clock: impl tollgate::Clock + 'static) -> Self {
        self.call_time = CallTime::Manual(Arc::new(clock));
        self
    }

    /// The store. It connects in the background, so this succeeds although no server is there yet;
    /// see [`RedisStore::ready`]. It must be called inside a Tokio runtime.
    pub fn build(self) -> Result<RedisStore, RedisConfigError> {
        self.check()?;
        let first = self.first_endpoint()?.clone();
        let addresses = self.addresses(&first)?;
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(RedisConfigError::NoRuntime);
        }
        let access = self.access(&first)?;
        let leases = self.call_time.leases();
        let call_time = self.call_time;
        let topology = match self.kind {
            Kind::Standalone => {
                let lane = Lane::start(Route::Direct(first.address), access, call_time, false);
                Topology::Single(Arc::new(lane))
            }
            Kind::Sentinel { name } => {
                let sentinels = Arc::new(Sentinels::new(addresses, name));
                let route = Route::ByName(sentinels.clone());
                let lane = Arc::new(Lane::start(route, access.clone(), call_time, false));
                tokio::spawn(sentinels.watch(Arc::downgrade(&lane), access));
                Topology::Single(lane)
            }
            Kind::Cluster => Topology::Cluster(Cluster::start(addresses, access, call_time)),
        };
        let keys = Keys::new(self.prefix, topology.is_cluster());
        Ok(RedisStore::new(
            topology,
            keys,
            self.timeout,
            self.max_retries,
            leases,
        ))
    }

    /// What is wrong with the settings, as far as that can be told without a runtime, certificates
    /// or a server.
    ///
    /// ```
    /// use tollgate_redis::RedisBuilder;
    ///
    /// let wrong = RedisBuilder::standalone("redis://h:70000").check().unwrap_err();
    /// assert_eq!(wrong.to_string(), r#"the endpoint's port is "70000"; it must be a number from 1 to 65535"#);
    /// ```
    pub fn check(&self) -> Result<(), RedisConfigError> {
        let first = self.first_endpoint()?;
        self.addresses(first)?;
        let database = first.database;
        if matches!(self.kind, Kind::Cluster) && database > 0 {
            return Err(RedisConfigError::ClusterDatabase { found: database });
        }
        let is_printable = |c: char| c.is_ascii_graphic() && c != '{' && c != '}';
        if self.prefix.len() > PREFIX_MAX || !self.prefix.chars().all(is_printable) {
            return Err(RedisConfigError::Prefix {
                found: self.prefix.chars().take(PREFIX_MAX).collect(),
            });
        }
        within(
            "timeout",
            self.timeout,
            Duration::from_millis(1),
            Duration::from_secs(10),
        )?;
        within(
            "connect_timeout",
            self.connect_timeout,
            Duration::from_millis(10),
            Duration::from_secs(60),
        )
    }

    fn first_endpoint(&self) -> Result<&Endpoint, RedisConfigError> {
        self.endpoints
            .first()
            .ok_or(RedisConfigError::NoEndpoint)?
            .as_ref()
            .map_err(Clone::clone)
    }

    /// The addresses of all endpoints, which must differ in nothing else.
    fn addresses(
        &self,
        first: &Endpoint,
    ) -> Result<Vec<crate::endpoint::Address>, RedisConfigError> {
        self.endpoints
            .iter()
            .map(|endpoint| {
                let endpoint = endpoint.as_ref().map_err(Clone::clone)?;
                let mixed = |what| Err(RedisConfigError::Mixed { what });
                if endpoint.is_tls != first.is_tls {
                    mixed("TLS")
                } else if endpoint.credentials != first.credentials {
                    mixed("user or password")
                } else if endpoint.database != first.database {
                    mixed("database")
                } else {
                    Ok(endpoint.address.clone())
                }
            })
            .collect()
    }

    fn access(&self, first: &Endpoint) -> Result<SharedAccess, RedisConfigError> {
        let tls = if first.is_tls {
            Some(Tls::new(self.ca_pem.as_deref())?)
        } else {
            None
        };
        let time = match self.call_time {
            CallTime::Server => TimeSource::Server,
            #[cfg(feature = "manual-time")]
            CallTime::Manual(_) => TimeSource::Caller,
        };
        Ok(Arc::new(Access {
            credentials: first.credentials.clone(),
            database: first.database,
            tls,
            connect_timeout: self.connect_timeout,
            timeout: self.timeout,
            script: Script::batch(time),
        }))
    }
}

fn within(
    field: &'static str,
    found: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), RedisConfigError> {
    if (least..=most).contains(&found) {
        Ok(())
    } else {
        Err(RedisConfigError::Time {
            field,
            found,
            least,
            most,
        })
    }
}
