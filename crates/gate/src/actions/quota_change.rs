//! Other numbers for a key: a multiple, a tier, or numbers of the limit.

use serde_json::{Map, Value};
use tollgate::{Limit, Quota};
use tollgate_rules::LimitConfig;

/// The numbers that an override may set, with the names of the file. The window is not one of
/// them: it gives the counter its meaning.
const NUMBERS: [&str; 5] = [
    "limit",
    "capacity",
    "refill_rate",
    "leak_rate",
    "permit_timeout",
];
const THOUSAND: f64 = 1_000.0;

/// What an override does to the quota of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaChange {
    /// A multiple of the quota that would apply: of the caller's tier, if the limit has tiers.
    Multiply(Multiple),
    /// The quota of this tier.
    Tier(String),
    /// The limit's own quota with these numbers.
    Numbers(Map<String, Value>),
}

/// A factor between 0.001 and 1,000,000 with three decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiple {
    thousandths: u32,
}

/// Why an override does not fit its limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotaChangeError {
    /// The factor is out of range.
    #[error(
        "invalid `multiply` {found}; expected a number from 0.001 to 1000000, such as 2 or 0.5"
    )]
    Multiple {
        /// The number found.
        found: String,
    },
    /// The limit has no tiers.
    #[error("the limit {limit:?} has no tiers; set `multiply`, or {numbers}")]
    NoTiers {
        /// The name of the limit.
        limit: String,
        /// The numbers of its algorithm.
        numbers: String,
    },
    /// The limit has no such tier.
    #[error("unknown tier {found:?}; the limit {limit:?} has {known}")]
    UnknownTier {
        /// The name of the limit.
        limit: String,
        /// The name found, cut to 80 characters.
        found: String,
        /// The names of its tiers.
        known: String,
    },
    /// The algorithm of the limit has no such number, or it cannot be changed.
    #[error("unknown number {found:?}; an override of the limit {limit:?} takes {numbers}")]
    UnknownNumber {
        /// The name of the limit.
        limit: String,
        /// The name found, cut to 80 characters.
        found: String,
        /// The numbers of its algorithm.
        numbers: String,
    },
    /// A number has a wrong type or is out of range.
    #[error("invalid override of the limit {limit:?}: {reason}")]
    Number {
        /// The name of the limit.
        limit: String,
        /// What is wrong.
        reason: String,
    },
}

impl Multiple {
    /// A factor, rounded to three decimals.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    pub fn new(factor: f64) -> Result<Self, QuotaChangeError> {
        let thousandths = (factor * THOUSAND).round();
        if (1.0..=1e9).contains(&thousandths) {
            Ok(Self {
                thousandths: thousandths as u32,
            })
        } else {
            let found = factor.to_string();
            Err(QuotaChangeError::Multiple { found })
        }
    }

    /// The factor.
    pub fn factor(self) -> f64 {
        f64::from(self.thousandths) / THOUSAND
    }

    /// The quota times the factor; the quota itself if that would be out of range.
    pub(super) fn scale(self, quota: &Quota) -> Quota {
        let scaled = quota.scaled(self.thousandths, 1_000);
        scaled.unwrap_or(*quota)
    }
}

impl QuotaChange {
    /// Whether the change fits a limit, or why it does not.
    pub fn validate(&self, limit: &LimitConfig) -> Result<(), QuotaChangeError> {
        let Self::Multiply(multiple) = self else {
            return self.fixed_quota(limit).map(drop);
        };

        let tiers = limit.tiers.iter().flat_map(|tiers| tiers.quotas.values());
        for quota in tiers.chain([limit.rule.quota()]) {
            let scaled = quota.scaled(multiple.thousandths, 1_000);
            scaled.map_err(|error| QuotaChangeError::Number {
                limit: limit.rule.name().to_string(),
                reason: error.to_string(),
            })?;
        }
        Ok(())
    }

    /// The quota that the change results in; none if it depends on the caller.
    pub(super) fn fixed_quota(
        &self,
        limit: &LimitConfig,
    ) -> Result<Option<Quota>, QuotaChangeError> {
        match self {
            Self::Multiply(_) => Ok(None),
            Self::Tier(name) => tier_quota(limit, name).map(Some),
            Self::Numbers(numbers) => numbers_quota(limit, numbers).map(Some),
        }
    }
}

fn tier_quota(limit: &LimitConfig, name: &str) -> Result<Quota, QuotaChangeError> {
    let limit_name = || limit.rule.name().to_string();
    let Some(tiers) = &limit.tiers else {
        return Err(QuotaChangeError::NoTiers {
            limit: limit_name(),
            numbers: own_numbers(&own_fields(limit)),
        });
    };

    tiers.quotas.get(name).copied().ok_or_else(|| {
        let known: Vec<&str> = tiers.quotas.keys().map(|name| &**name).collect();
        QuotaChangeError::UnknownTier {
            limit: limit_name(),
            found: name.chars().take(80).collect(),
            known: known.join(", "),
        }
    })
}

/// The limit's own quota with other numbers: the limit as JSON, with some of its members replaced.
fn numbers_quota(
    limit: &LimitConfig,
    numbers: &Map<String, Value>,
) -> Result<Quota, QuotaChangeError> {
    let mut fields = own_fields(limit);
    for (name, value) in numbers {
        if !NUMBERS.contains(&name.as_str()) || !fields.contains_key(name) {
            return Err(QuotaChangeError::UnknownNumber {
                limit: limit.rule.name().to_string(),
                found: name.chars().take(80).collect(),
                numbers: own_numbers(&own_fields(limit)),
            });
        }
        fields.insert(name.clone(), value.clone());
    }

    let changed: Result<Limit, _> = serde_json::from_value(Value::Object(fields));
    let rule = changed
        .map_err(|error| error.to_string())
        .and_then(|limit| limit.validate().map_err(|error| error.to_string()));
    match rule {
        Ok(rule) => Ok(*rule.quota()),
        Err(reason) => Err(QuotaChangeError::Number {
            limit: limit.rule.name().to_string(),
            reason: reason.chars().take(200).collect(),
        }),
    }
}

/// The limit with the names of the file.
fn own_fields(limit: &LimitConfig) -> Map<String, Value> {
    match serde_json::to_value(Limit::from(limit.rule)) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// The numbers of a limit's algorithm, for errors.
fn own_numbers(fields: &Map<String, Value>) -> String {
    let own = NUMBERS.iter().filter(|name| fields.contains_key(**name));
    let own: Vec<String> = own.map(|name| format!("`{name}`")).collect();
    own.join(" and ")
}
