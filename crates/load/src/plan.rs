//! The plan of a load: everything that is fixed before it starts.

use std::net::SocketAddr;
use std::time::Duration;

use fastrand::Rng;
use hyper::header::HeaderValue;
use tollgate_rules::Attribute;

use crate::generator::{CostRange, RequestGenerator, ScheduledRequest, SourceAddresses};
use crate::judge::{Allowance, BoundSource};
use crate::keys::KeyDistribution;
use crate::schedule::LoadSchedule;
use crate::template::ValueTemplate;
use crate::tls::ClientTls;

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
    /// The TLS settings. `None` connects without TLS.
    pub tls: Option<ClientTls>,
    /// The value of the header `Authorization`. Only sent to the Tollgate service.
    pub authorization: Option<HeaderValue>,
}

impl std::fmt::Display for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.base)
    }
}

impl From<SocketAddr> for Replica {
    fn from(address: SocketAddr) -> Self {
        Self {
            host: address.ip().to_string(),
            port: address.port(),
            authority: address.to_string(),
            base: String::new(),
            tls: None,
            authorization: None,
        }
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

/// Times and requests use separate random sequences, so that one does not depend on the other.
const TIMES_SEED: u64 = 0x7469_6d65;

impl LoadPlan {
    /// One second of load with default settings: a thousand requests of one client, which are
    /// judged by their responses.
    pub fn new(replicas: Vec<Replica>, request: RequestKind) -> Self {
        Self {
            replicas,
            request,
            schedule: LoadSchedule::constant(1_000.0, Duration::from_secs(1)),
            keys: KeyDistribution::single(),
            addresses: SourceAddresses::PerKey,
            cost: None,
            connections: 64,
            timeout: Duration::from_secs(5),
            bounds: BoundSource::Responses,
            allowances: Vec::new(),
            retry_budget: Duration::ZERO,
            seed: 0,
        }
    }

    pub(crate) fn generator(&self) -> RequestGenerator<'_> {
        RequestGenerator {
            keys: &self.keys,
            addresses: self.addresses,
            cost: self.cost.as_ref(),
            random: Rng::with_seed(self.seed),
        }
    }

    /// The requests of a load that starts at `epoch`, the time since the Unix epoch.
    pub(crate) fn requests(&self, epoch: Duration) -> impl Iterator<Item = ScheduledRequest> {
        let times = Rng::with_seed(self.seed ^ TIMES_SEED);
        let mut generator = self.generator();
        let numbered = self.schedule.times_us(times, epoch).enumerate();
        numbered.map(move |(number, due_us)| ScheduledRequest {
            due_us,
            replica: number % self.replicas.len().max(1),
            params: generator.next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl LoadPlan {
        /// A load of one second on two replicas by a million users.
        pub(crate) fn for_tests(bounds: BoundSource) -> Self {
            let replica = Replica {
                host: "h".to_owned(),
                authority: "h:1".to_owned(),
                ..Replica::from(SocketAddr::from(([127, 0, 0, 1], 1)))
            };
            let user = ValueTemplate::parse("{key}").unwrap();
            let request = RequestKind::Check {
                attributes: vec![("user".parse().unwrap(), user)],
                limits: Vec::new(),
            };
            Self {
                keys: KeyDistribution::uniform(std::num::NonZeroU32::new(1_000_000).unwrap()),
                bounds,
                ..Self::new(vec![replica.clone(), replica], request)
            }
        }
    }
}
