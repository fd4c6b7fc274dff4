//! The table of scenarios, as `table.json` has it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) tiers: Value,
    /// By column and feature: why the column cannot express it.
    pub(super) cannot: BTreeMap<String, BTreeMap<String, String>>,
    /// Beginnings of differences that are known bugs, each with its reason.
    pub(super) pending: BTreeMap<String, String>,
    pub(super) scenarios: Vec<Scenario>,
}

/// Requests that follow each other, and their results.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    pub(super) name: String,
    #[serde(default)]
    pub(super) store: StoreState,
    /// What a front must be able to express besides the operations of the steps.
    #[serde(default)]
    needs: Vec<String>,
    /// The value of the key; by default one of its own for each column.
    pub(super) user: Option<String>,
    /// In the format of the configuration file, without `match` and mostly without `key`.
    pub(super) limits: Vec<Value>,
    /// A limit that the requests bring along.
    pub(super) inline: Option<Value>,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StoreState {
    /// Memory or a server.
    #[default]
    Running,
    /// A server that refuses connections.
    Down,
    /// In memory, behind ports that require a token.
    Guarded,
}

/// An operation, and what a client sees of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    #[serde(rename = "do")]
    pub(super) operation: Operation,
    pub(super) cost: Option<u64>,
    /// The actual cost of a reservation.
    pub(super) actual: Option<u64>,
    /// Tokens by kind, of a reservation or its settlement.
    pub(super) tokens: Option<Value>,
    pub(super) ttl: Option<String>,
    /// The limit of an override.
    pub(super) limit: Option<u64>,
    /// Further attributes.
    #[serde(default)]
    pub(super) with: BTreeMap<String, String>,
    /// The request lacks the attribute of the key.
    #[serde(default)]
    pub(super) anonymous: bool,
    pub(super) is: Answer,
    #[serde(default)]
    pub(super) degraded: bool,
    /// The limit and what remains of it, by the name of the limit.
    pub(super) told: Option<BTreeMap<String, (u64, u64)>>,
    /// The least and the most seconds to wait. Time passes while the test runs.
    pub(super) retry_s: Option<(u64, u64)>,
    pub(super) charged: Option<u64>,
    /// What a settlement says about its reservation.
    pub(super) reservation: Option<String>,
    /// The units used afterwards, by the name of the limit.
    pub(super) used: Option<BTreeMap<String, u64>>,
    /// The decisions that metrics count for this step: limit, outcome and source.
    #[serde(default)]
    pub(super) counted: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Operation {
    Check,
    Acquire,
    Release,
    Reserve,
    Settle,
    Cancel,
    Count,
    Refund,
    Override,
    /// A request that the protocol cannot mean.
    Garbage,
    /// Waits until the units used are as expected.
    Await,
}

impl Operation {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Acquire => "acquire",
            Self::Release => "release",
            Self::Reserve => "reserve",
            Self::Settle => "settle",
            Self::Cancel => "cancel",
            Self::Count => "count",
            Self::Refund => "refund",
            Self::Override => "override",
            Self::Garbage => "garbage",
            Self::Await => "await",
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    Allowed,
    Denied,
    /// Of an operation that decides nothing.
    Done,
    /// The request was wrong; nothing was decided.
    Error,
}

impl Table {
    pub(super) fn read() -> Self {
        serde_json::from_str(include_str!("table.json")).expect("a right table")
    }

    pub(super) fn with_store(&self, state: StoreState) -> impl Iterator<Item = &Scenario> {
        let scenarios = self.scenarios.iter();
        scenarios.filter(move |scenario| scenario.store == state)
    }

    /// Why the column cannot run the scenario, if it cannot.
    pub(super) fn obstacle(&self, scenario: &Scenario, column: &str) -> Option<&str> {
        let reasons = self.cannot.get(column)?;
        let mut found = scenario.features().filter_map(|name| reasons.get(name));
        found.next().map(String::as_str)
    }

    /// The entry of `pending` that knows this difference.
    pub(super) fn pending_entry(&self, difference: &str) -> Option<&str> {
        let mut known = self.pending.keys().map(String::as_str);
        known.find(|beginning| difference.starts_with(beginning))
    }
}

impl Scenario {
    /// What a front must be able to express.
    pub(super) fn features(&self) -> impl Iterator<Item = &str> {
        let operations = self.steps.iter().map(|step| step.operation.name());
        self.needs.iter().map(String::as_str).chain(operations)
    }
}
