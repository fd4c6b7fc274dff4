//! Everything about a load that is settled before it begins.

use std::time::Duration;

use tollgate_rules::Attribute;

use crate::draw::{Addresses, Costs, Draws};
use crate::judge::{Allowance, Standard};
use crate::keys::Keys;
use crate::schedule::Pace;
use crate::template::Template;

/// Where a replica of the service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Host and port, as the `Host` header says them.
    pub authority: String,
    /// What stands before every path.
    pub base: String,
}

impl std::fmt::Display for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.authority, self.base)
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub enum Asking {
    /// Decisions of the service: `POST /v1/check`.
    Check {
        /// What is known of a request.
        attributes: Vec<(Attribute, Template)>,
        /// The limits to ask, or none for all whose conditions hold.
        limits: Vec<String>,
    },
    /// Any application that answers 429 when it has had enough.
    Get {
        /// The path, with its query.
        path: Template,
        /// Further header fields.
        headers: Vec<(String, Template)>,
    },
}

/// A load.
#[derive(Debug)]
pub struct Plan {
    /// Who is asked, in turn; at least one.
    pub replicas: Vec<Replica>,
    /// What they are asked.
    pub asking: Asking,
    /// When.
    pub pace: Pace,
    /// By which clients.
    pub keys: Keys,
    /// From which addresses.
    pub addresses: Addresses,
    /// For how much; nothing leaves it to the limits.
    pub costs: Option<Costs>,
    /// Over how many connections in all, at least one for each replica.
    pub connections: usize,
    /// How long an answer may take.
    pub timeout: Duration,
    /// By what limits are judged.
    pub standard: Standard,
    /// What limits allow, where that is said by hand.
    pub allowances: Vec<Allowance>,
    /// How long, after the load, may be spent on trying whether retry times are true.
    pub retry_budget: Duration,
    /// The same seed asks the same questions.
    pub seed: u64,
}

impl Plan {
    pub(crate) fn draws(&self) -> Draws<'_> {
        let random = fastrand::Rng::with_seed(self.seed);
        Draws {
            keys: &self.keys,
            addresses: self.addresses,
            costs: self.costs.as_ref(),
            random,
        }
    }

    /// How many connections each replica gets.
    pub(crate) fn connections_each(&self) -> usize {
        self.connections.div_ceil(self.replicas.len().max(1)).max(1)
    }
}

#[cfg(test)]
impl Plan {
    /// A second's load on two replicas by any of a million users.
    pub(crate) fn for_tests(standard: Standard) -> Self {
        let (host, authority) = ("h".to_owned(), "h:1".to_owned());
        let replica = Replica {
            host,
            port: 1,
            authority,
            base: String::new(),
        };
        let attributes = vec![("user".parse().unwrap(), Template::parse("{key}").unwrap())];
        let (duration, ramp) = (Duration::from_secs(1), Duration::ZERO);
        Self {
            replicas: vec![replica.clone(), replica],
            asking: Asking::Check {
                attributes,
                limits: Vec::new(),
            },
            pace: Pace {
                rate_per_s: 1.0,
                duration,
                ramp,
                arrivals: crate::Arrivals::Constant,
                edges_of: None,
            },
            keys: Keys::uniform(std::num::NonZeroU32::new(1_000_000).unwrap()),
            addresses: Addresses::OfTheKey,
            costs: None,
            connections: 1,
            timeout: duration,
            standard,
            allowances: Vec::new(),
            retry_budget: duration,
            seed: 0,
        }
    }
}
