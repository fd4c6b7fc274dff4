//! What a counter contains, as members of a limit in a JSON body.

use serde::{Serialize, Serializer};
use tollgate::algorithm::{CounterDetail, CounterView, LockoutView, ReservedUnits, WindowSpan};
use tollgate::{Micros, Quota};

use crate::time::millis_ceil;

/// What a counter contains: the members that a peek adds to a [`LimitBody`](crate::LimitBody).
/// Field names are member names; those without a value are absent.
///
/// ```
/// # pollster::block_on(async {
/// use tollgate::{Limit, Limiter, Rate};
/// use tollgate_http::CounterBody;
///
/// let limiter = Limiter::in_memory([Limit::token_bucket("api", 100, Rate::per_hour(1))])?;
/// limiter.check("api", "ann").cost(30).await?;
///
/// let inspection = limiter.peek("api", "ann").inspect().await?;
/// let quota = limiter.rule("api")?.quota();
/// let body = CounterBody::new(quota, &inspection.counters[0]);
/// assert_eq!((body.algorithm, body.used), ("token_bucket", 30));
/// assert_eq!((body.level.unwrap().thousandths, body.rate.as_deref()), (70_000, Some("1/h")));
/// # Ok::<(), tollgate::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CounterBody {
    /// The limit's algorithm, as in a configuration.
    pub algorithm: &'static str,
    /// Units used, including those of open reservations: more than the limit if the counter is in
    /// debt.
    pub used: u64,
    /// The current window of a fixed or sliding window, or the interval of a log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowBody>,
    /// Units spent in the current window of a sliding window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<u64>,
    /// Units spent in the previous window of a sliding window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<u64>,
    /// Tokens in a token bucket, below 0 if it is in debt, or units in a leaky bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<BucketLevel>,
    /// How fast a bucket refills or leaks, as in a configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Units in flight of a concurrency limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u64>,
    /// Open reservations, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<ReservedBody>,
    /// Units on lease to all instances, of a leased bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leased: Option<u64>,
    /// Units on lease to the instance that answers and not spent, of a leased limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
    /// The denials and the lockout of the key, if the limit has a lockout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lockout: Option<LockoutBody>,
    /// The tier whose quota applies. [`CounterBody::new`] leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
}

/// A window, in milliseconds, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WindowBody {
    /// When it began, since the UNIX epoch.
    pub start_ms: u64,
    /// How long it lasts.
    pub length_ms: u64,
    /// The time of the oldest hit of a log that counts, since the UNIX epoch. Absent if there is
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_ms: Option<u64>,
}

/// The open reservations of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReservedBody {
    /// How many there are.
    pub count: u64,
    /// The units that they have charged.
    pub units: u64,
}

/// The denials and the lockout of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LockoutBody {
    /// Denials in the current window.
    pub denials: u32,
    /// How long the key is still locked, in milliseconds, rounded up; 0 if it is not.
    pub locked_ms: u64,
    /// How often the key was locked out, as far as that is remembered.
    pub level: u32,
}

/// How full a bucket is: in JSON, a number with up to three decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketLevel {
    /// Thousandths of a unit.
    pub thousandths: i64,
}

impl CounterBody {
    /// The members for a counter with this quota.
    pub fn new(quota: &Quota, view: &CounterView) -> Self {
        let ReservedUnits { count, units } = view.reserved;
        let mut body = Self {
            algorithm: quota.algorithm(),
            used: view.used,
            window: None,
            current: None,
            previous: None,
            level: None,
            rate: quota.rate_text(),
            in_flight: None,
            reserved: (count > 0).then_some(ReservedBody { count, units }),
            leased: view.leased,
            held: view.held,
            lockout: view.lockout.map(LockoutBody::new),
            tier: None,
        };

        match view.detail {
            CounterDetail::FixedWindow { window } => {
                body.window = window.map(|window| WindowBody::new(window, None));
            }
            CounterDetail::SlidingWindow {
                window,
                current,
                previous,
            } => {
                body.window = Some(WindowBody::new(window, None));
                (body.current, body.previous) = (Some(current), Some(previous));
            }
            CounterDetail::SlidingLog { window, oldest } => {
                body.window = Some(WindowBody::new(window, oldest));
            }
            CounterDetail::Bucket {
                level_thousandths: thousandths,
            } => body.level = Some(BucketLevel { thousandths }),
            CounterDetail::Concurrency => body.in_flight = Some(view.used),
            _ => {}
        }
        body
    }
}

impl WindowBody {
    fn new(window: WindowSpan, oldest: Option<Micros>) -> Self {
        let millis = |time: Micros| time.get() / 1_000;
        Self {
            start_ms: millis(window.start),
            length_ms: millis(window.length),
            oldest_ms: oldest.map(millis),
        }
    }
}

impl LockoutBody {
    fn new(view: LockoutView) -> Self {
        Self {
            denials: view.denials,
            locked_ms: millis_ceil(view.locked_for.into()),
            level: view.level,
        }
    }
}

impl Serialize for BucketLevel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.thousandths % 1_000 == 0 {
            return serializer.serialize_i64(self.thousandths / 1_000);
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "a level that is not whole is shown, not computed with"
        )]
        let units = self.thousandths as f64 / 1_000.0;
        serializer.serialize_f64(units)
    }
}
