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
        Draws { keys: &self.keys, addresses: self.addresses, costs: self.costs.as_ref(), random }
    }

    /// How many connections each replica gets.
    pub(crate) fn connections_each(&self) -> usize {
        self.connections.div_ceil(self.replicas.len().max(1)).max(1)
    }
}
