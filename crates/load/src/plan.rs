//! The plan of a load: everything that is fixed before it starts.

use std::time::Duration;

use tollgate_rules::Attribute;

use crate::generator::{CostRange, RequestGenerator, SourceAddresses};
use crate::judge::{Allowance, BoundSource};
use crate::keys::KeyDistribution;
use crate::schedule::LoadSchedule;
use crate::template::ValueTemplate;

/// The location of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Host and port, as sent in the `Host` header.
    pub authority: String,
    /// Prefix of every path; may be empty.
    pub base: String,
}

impl std::fmt::Display for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.authority, self.base)
    }
}

/// The kind of requests to send.
#[derive(Clone, Debug)]
pub enum RequestKind {
    /// `POST /v1/check` to the Tollgate service.
    Check {
        /// The attributes of a request.
        attributes: Vec<(Attribute, ValueTemplate)>,
        /// Names of the limits to check. If empty, the service checks all limits that match.
        limits: Vec<String>,
    },
    /// `GET` to any application that responds with 429 when it denies a request.
    Get {
        /// The path, including its query.
        path: ValueTemplate,
        /// Additional header fields.
        headers: Vec<(String, ValueTemplate)>,
    },
}

/// The plan of a load.
#[derive(Debug)]
pub struct LoadPlan {
    /// The replicas, used round robin. There must be at least one.
    pub replicas: Vec<Replica>,
    /// The kind of requests to send.
    pub request: RequestKind,
    /// When requests are due.
    pub schedule: LoadSchedule,
    /// The keys of requests.
    pub keys: KeyDistribution,
    /// The source addresses of requests.
    pub addresses: SourceAddresses,
    /// The cost of requests. `None` leaves it to the limits.
    pub cost: Option<CostRange>,
    /// Total number of connections. Each replica gets at least one.
    pub connections: usize,
    /// How long to wait for a response.
    pub timeout: Duration,
    /// What the limits allow, for judging them.
    pub bounds: BoundSource,
    /// What certain limits allow; takes precedence over `bounds`.
    pub allowances: Vec<Allowance>,
    /// How long to probe retry times after the load. Zero skips the probes.
    pub retry_budget: Duration,
    /// Seed of the random numbers. The same seed generates the same requests.
    pub seed: u64,
}

impl LoadPlan {
    pub(crate) fn generator(&self) -> RequestGenerator<'_> {
        let random = fastrand::Rng::with_seed(self.seed);
        RequestGenerator {
            keys: &self.keys,
            addresses: self.addresses,
            cost: self.cost.as_ref(),
            random,
        }
    }

    /// The maximum number of connections to one replica.
    pub(crate) fn connections_per_replica(&self) -> usize {
        self.connections.div_ceil(self.replicas.len().max(1)).max(1)
    }
}

#[cfg(test)]
impl LoadPlan {
    /// A load of one second on two replicas by a million users.
    pub(crate) fn for_tests(bounds: BoundSource) -> Self {
        let (host, authority) = ("h".to_owned(), "h:1".to_owned());
        let replica = Replica {
            host,
            port: 1,
            authority,
            base: String::new(),
        };
        let attributes = vec![(
            "user".parse().unwrap(),
            ValueTemplate::parse("{key}").unwrap(),
        )];
        let (duration, ramp) = (Duration::from_secs(1), Duration::ZERO);
        Self {
            replicas: vec![replica.clone(), replica],
            request: RequestKind::Check {
                attributes,
                limits: Vec::new(),
            },
            schedule: LoadSchedule {
                rate_per_s: 1.0,
                duration,
                ramp,
                arrivals: crate::Arrivals::Constant,
                burst_window: None,
            },
            keys: KeyDistribution::uniform(std::num::NonZeroU32::new(1_000_000).unwrap()),
            addresses: SourceAddresses::PerKey,
            cost: None,
            connections: 1,
            timeout: duration,
            bounds,
            allowances: Vec::new(),
            retry_budget: duration,
            seed: 0,
        }
    }
}
