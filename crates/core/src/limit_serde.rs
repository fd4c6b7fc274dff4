//! Feature `serde`: limits in JSON and other formats, with the names of the service's YAML file.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::algorithm::{
    Calendar, Concurrency, FixedWindow, LOCKOUT_MAX_DEFAULT, LeakyBucket, LeakyMode, Lockout,
    Quota, Rate, SlidingLog, SlidingWindow, TokenBucket, WindowStart,
};
use crate::consistency::Consistency;
use crate::limit::{
    FailurePolicy, Limit, LimitError, QuotaUnit, RESERVATION_MAX_DEFAULT, ReservationExpiry,
};
use crate::time::Micros;

/// Reads a limit as in the service's configuration file; needs the feature `serde`. An invalid
/// limit is an error. `unit`, `consistency`, `on_store_failure`, `shadow`, `align`, `mode`,
/// `debt_max`, `reservation_max`, `on_reservation_expiry` and `lockout` are optional. A lockout is
/// an object with `after`, `within`, `for` and perhaps `factor` and `max`.
///
/// | `algorithm` | its fields |
/// |---|---|
/// | `sliding_window`, `sliding_log` | `limit`, `window` such as `"500ms"`, `"10s"` or `"1d"` |
/// | `fixed_window` | the same; with `"align": "clock"`, `window` is 1s, 1m, 1h, 1d or 1month |
/// | `token_bucket` | `capacity`, `refill_rate` such as `"10/s"` or `"1/10s"` |
/// | `leaky_bucket` | `capacity`, `leak_rate`, `mode`: `"meter"` or `"queue"` |
/// | `concurrency` | `limit`, `permit_timeout` such as `"30s"` |
///
/// ```
/// use tollgate::{Limit, Limiter};
///
/// let chat: Limit = serde_json::from_str(
///     r#"{"name": "chat", "algorithm": "token_bucket", "capacity": 10, "refill_rate": "1/s",
///         "consistency": "leased", "on_store_failure": "local"}"#,
/// )?;
/// let limiter = Limiter::in_memory([chat])?;
/// assert_eq!(limiter.check("chat", "ann").try_now()?.remaining(), 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = LimitForm::deserialize(deserializer)?;
        let quota = fields.quota.to_quota().map_err(D::Error::custom)?;
        let limit = Self::new(fields.name, quota)
            .unit(fields.unit)
            .consistency(fields.consistency)
            .on_store_failure(fields.on_store_failure)
            .reservation_max(fields.reservation_max.unwrap_or(RESERVATION_MAX_DEFAULT))
            .on_reservation_expiry(fields.on_reservation_expiry);
        let limit = if fields.shadow { limit.shadow() } else { limit };
        let limit = match fields.debt_max {
            Some(units) => limit.debt_max(units),
            None => limit,
        };
        let limit = match fields.lockout {
            Some(lockout) => limit.lockout(lockout.to_lockout().map_err(D::Error::custom)?),
            None => limit,
        };

        limit.validate().map_err(D::Error::custom)?;
        Ok(limit)
    }
}

/// Writes a limit so that it can be read again; needs the feature `serde`. An invalid limit is an
/// error. Optional fields are left out if they have their defaults.
impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rule = self.validate().map_err(S::Error::custom)?;
        let fields = LimitForm {
            name: rule.name().to_string(),
            quota: QuotaFields::new(rule.quota()),
            consistency: rule.consistency(),
            unit: rule.unit(),
            on_store_failure: rule.on_store_failure(),
            shadow: rule.is_shadow(),
            debt_max: rule.debt_max,
            reservation_max: Some(rule.reservation_max()).filter(|share| {
                let difference = share - RESERVATION_MAX_DEFAULT;
                difference.abs() > f64::EPSILON
            }),
            on_reservation_expiry: rule.on_reservation_expiry(),
            lockout: rule.lockout().map(LockoutFields::new),
        };
        fields.serialize(serializer)
    }
}

/// The fields of a limit. All that are not listed here go to the algorithm, which rejects others.
#[derive(Serialize, Deserialize)]
struct LimitForm {
    name: String,
    #[serde(flatten)]
    quota: QuotaFields,
    #[serde(default, skip_serializing_if = "is_default")]
    unit: QuotaUnit,
    #[serde(default, skip_serializing_if = "is_default")]
    consistency: Consistency,
    #[serde(default, skip_serializing_if = "is_default")]
    on_store_failure: FailurePolicy,
    #[serde(default, skip_serializing_if = "is_default")]
    shadow: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    debt_max: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    reservation_max: Option<f64>,
    #[serde(default, skip_serializing_if = "is_default")]
    on_reservation_expiry: ReservationExpiry,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lockout: Option<LockoutFields>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockoutFields {
    after: u32,
    within: String,
    #[serde(rename = "for")]
    length: String,
    #[serde(default = "one")]
    factor: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<String>,
}

impl LockoutFields {
    fn new(lockout: &Lockout) -> Self {
        Self {
            after: lockout.after(),
            within: lockout.within().to_string(),
            length: lockout.length().to_string(),
            factor: lockout.factor(),
            max: Some(lockout.max().to_string()),
        }
    }

    /// The lockout, or why it is invalid.
    fn to_lockout(&self) -> Result<Lockout, String> {
        let length = Micros::from_text(&self.length)?;
        let within = Micros::from_text(&self.within)?;
        let max = match &self.max {
            Some(max) => Micros::from_text(max)?,
            None => length.max(LOCKOUT_MAX_DEFAULT),
        };

        let lockout = Lockout::new(self.after, within.into(), length.into());
        let lockout = lockout.and_then(|lockout| lockout.with_growth(self.factor, max.into()));
        lockout.map_err(|error| error.to_string())
    }
}

const fn one() -> u32 {
    1
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "algorithm", rename_all = "snake_case", deny_unknown_fields)]
enum QuotaFields {
    FixedWindow {
        limit: u64,
        window: String,
        #[serde(default, skip_serializing_if = "is_default")]
        align: WindowAlign,
    },
    SlidingWindow {
        limit: u64,
        window: String,
    },
    SlidingLog {
        limit: u64,
        window: String,
    },
    TokenBucket {
        #[serde(rename = "capacity")]
        limit: u64,
        #[serde(rename = "refill_rate")]
        rate: String,
    },
    LeakyBucket {
        #[serde(rename = "capacity")]
        limit: u64,
        #[serde(rename = "leak_rate")]
        rate: String,
        #[serde(default)]
        mode: LeakyMode,
    },
    Concurrency {
        limit: u64,
        #[serde(rename = "permit_timeout")]
        timeout: String,
    },
}

#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WindowAlign {
    #[default]
    FirstHit,
    Clock,
}

impl QuotaFields {
    fn new(quota: &Quota) -> Self {
        let limit = quota.limit();
        let window = quota.window().unwrap_or_default().to_string();
        let rate = quota.rate_text();
        let rate = rate.unwrap_or_default();

        match quota {
            Quota::FixedWindow(quota) => {
                let (window, align) = match quota.start() {
                    WindowStart::FirstHit(_) => (window, WindowAlign::FirstHit),
                    WindowStart::Clock(unit) => (unit.to_text(), WindowAlign::Clock),
                };
                Self::FixedWindow {
                    limit,
                    window,
                    align,
                }
            }
            Quota::SlidingWindow(_) => Self::SlidingWindow { limit, window },
            Quota::SlidingLog(_) => Self::SlidingLog { limit, window },
            Quota::TokenBucket(_) => Self::TokenBucket { limit, rate },
            Quota::LeakyBucket(bucket) => {
                let mode = bucket.mode();
                Self::LeakyBucket { limit, rate, mode }
            }
            Quota::Concurrency(quota) => {
                let timeout = quota.permit_timeout().to_string();
                Self::Concurrency { limit, timeout }
            }
        }
    }

    /// The quota, or why it is invalid.
    fn to_quota(&self) -> Result<Quota, String> {
        let length = |text: &str| Micros::from_text(text).map(Into::into);
        match self {
            Self::FixedWindow {
                limit,
                window,
                align,
            } => match align {
                WindowAlign::FirstHit => valid(FixedWindow::new(*limit, length(window)?)),
                WindowAlign::Clock => {
                    valid(FixedWindow::aligned(*limit, Calendar::from_text(window)?))
                }
            },
            Self::SlidingWindow { limit, window } => {
                valid(SlidingWindow::new(*limit, length(window)?))
            }
            Self::SlidingLog { limit, window } => valid(SlidingLog::new(*limit, length(window)?)),
            Self::TokenBucket { limit, rate } => {
                valid(TokenBucket::new(*limit, Rate::from_text(rate)?))
            }
            Self::LeakyBucket { limit, rate, mode } => {
                valid(LeakyBucket::new(*mode, *limit, Rate::from_text(rate)?))
            }
            Self::Concurrency { limit, timeout } => {
                valid(Concurrency::new(*limit, length(timeout)?))
            }
        }
    }
}

fn valid<Q: Into<Quota>>(quota: Result<Q, LimitError>) -> Result<Quota, String> {
    quota.map(Into::into).map_err(|error| error.to_string())
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests;
