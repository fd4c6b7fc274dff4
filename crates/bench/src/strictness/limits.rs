//! The limits that the replicas share: their names and quotas, and how an excess is proven.

use std::fmt::Write as _;
use std::time::Duration;

use super::excess::{self, Admission, Excess, Rate};
use super::windows::{self, ClockOffset};

pub(super) const SECOND_US: u64 = 1_000_000;
const DAY_US: u64 = 86_400 * SECOND_US;
/// Windows last a second, so that a run of a few seconds has a few window edges.
const WINDOW_US: i64 = 1_000_000;

/// A limit of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) name: &'static str,
    pub(super) quota: Quota,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quota {
    TokenBucket(Rate),
    /// A window aligned to the clock.
    FixedWindow(u64),
    SlidingWindow(u64),
}

const fn per_second(name: &'static str, burst: u64, per: u64) -> Limit {
    Limit {
        name,
        quota: Quota::TokenBucket(Rate {
            burst,
            per,
            period_us: SECOND_US,
        }),
    }
}

pub(super) const PER_SECOND_1000: Limit = per_second("1000-per-s", 1_000, 1_000);
pub(super) const PER_SECOND_100: Limit = per_second("100-per-s", 100, 100);
pub(super) const PER_SECOND_10: Limit = per_second("10-per-s", 10, 10);
pub(super) const PER_SECOND_20000: Limit = per_second("20000-per-s", 20_000, 20_000);
/// A limit that refills so slowly that nothing is refilled during a run.
pub(super) const ONCE: Limit = Limit {
    name: "1000-once",
    quota: Quota::TokenBucket(Rate {
        burst: 1_000,
        per: 1,
        period_us: DAY_US,
    }),
};
pub(super) const FIXED: Limit = Limit {
    name: "fixed-500",
    quota: Quota::FixedWindow(500),
};
pub(super) const SLIDING: Limit = Limit {
    name: "sliding-500",
    quota: Quota::SlidingWindow(500),
};
/// The limit for cases with many keys.
pub(super) const PER_KEY: Limit = per_second("20-per-s", 20, 20);
/// A limit that refills so fast that a request for the whole capacity is admitted now and then.
pub(super) const WEIGHED: Limit = per_second("weighed", 1_000, 2_000);

pub(super) const ALL: [Limit; 9] = [
    PER_SECOND_1000,
    PER_SECOND_100,
    PER_SECOND_10,
    PER_SECOND_20000,
    ONCE,
    FIXED,
    SLIDING,
    PER_KEY,
    WEIGHED,
];

impl Limit {
    /// The most units that can be admitted at once.
    pub(super) const fn capacity(&self) -> u64 {
        match self.quota {
            Quota::TokenBucket(rate) => rate.burst,
            Quota::FixedWindow(limit) | Quota::SlidingWindow(limit) => limit,
        }
    }

    /// Units per second; at least one, also for a rate of one per day.
    pub(super) fn per_s(&self) -> u64 {
        match self.quota {
            Quota::TokenBucket(rate) => (rate.per * SECOND_US / rate.period_us).max(1),
            Quota::FixedWindow(limit) | Quota::SlidingWindow(limit) => limit,
        }
    }

    /// The largest excess for one key.
    pub(super) fn excess(&self, admissions: &[Admission], offset: ClockOffset) -> Option<Excess> {
        match self.quota {
            Quota::TokenBucket(rate) => excess::worst(admissions, rate),
            Quota::FixedWindow(limit) => windows::worst_fixed(admissions, offset, WINDOW_US, limit),
            Quota::SlidingWindow(limit) => {
                windows::worst_sliding(admissions, offset, WINDOW_US, limit)
            }
        }
    }

    /// The same limit for the embedded store.
    pub(super) fn embedded(&self) -> tollgate::Limit {
        match self.quota {
            Quota::TokenBucket(Rate {
                burst,
                per,
                period_us,
            }) => {
                let rate = tollgate::Rate::new(per, Duration::from_micros(period_us));
                tollgate::Limit::token_bucket(self.name, burst, rate)
            }
            Quota::FixedWindow(limit) => {
                tollgate::Limit::calendar_window(self.name, limit, tollgate::Calendar::Second)
            }
            Quota::SlidingWindow(limit) => {
                tollgate::Limit::sliding_window(self.name, limit, Duration::from_secs(1))
            }
        }
    }

    fn yaml(&self) -> String {
        let numbers = match self.quota {
            Quota::TokenBucket(Rate {
                burst,
                per,
                period_us,
            }) => {
                let period = if period_us == SECOND_US { "s" } else { "day" };
                format!("algorithm: token_bucket, capacity: {burst}, refill_rate: {per}/{period}")
            }
            Quota::FixedWindow(limit) => {
                format!("algorithm: fixed_window, align: clock, limit: {limit}, window: 1s")
            }
            Quota::SlidingWindow(limit) => {
                format!("algorithm: sliding_window, limit: {limit}, window: 1s")
            }
        };
        format!("  - {{ name: {}, key: [user], {numbers} }}\n", self.name)
    }
}

/// A replica's configuration: all limits at this consistency, over this store.
///
/// The store timeout is one second instead of 10 ms, so that a busy machine makes the store slow
/// but not unavailable. Requests that the store cannot decide are denied, because the experiment
/// counts admissions.
pub(super) fn config(
    consistency: &str,
    replicas: usize,
    store_type: &str,
    urls: &[String],
) -> String {
    let urls: Vec<String> = urls.iter().map(|url| format!("\"{url}\"")).collect();
    let urls = urls.join(", ");
    let mut yaml = "version: 1\n".to_owned();
    let store = "prefix: \"strictness:\", timeout: 1s";
    let written = writeln!(
        yaml,
        "store: {{ type: {store_type}, endpoints: [{urls}], {store} }}"
    )
    .and_then(|()| {
        writeln!(
            yaml,
            "defaults: {{ consistency: {consistency}, on_store_failure: deny, \
             expected_replicas: {replicas} }}"
        )
    });
    written.expect("writing to a string cannot fail");
    yaml.push_str("limits:\n");
    ALL.iter().for_each(|limit| yaml.push_str(&limit.yaml()));
    yaml
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_valid_and_has_a_unique_name() {
        for (index, limit) in ALL.iter().enumerate() {
            assert!(limit.embedded().validate().is_ok(), "{limit:?}");
            assert!(
                ALL[..index].iter().all(|other| other.name != limit.name),
                "{limit:?}"
            );
        }
    }

    #[test]
    fn a_configuration_names_the_store_the_mode_and_all_limits() {
        let yaml = config("leased", 4, "redis", &["redis://a:1".to_owned()]);
        let expected = "\
version: 1
store: { type: redis, endpoints: [\"redis://a:1\"], prefix: \"strictness:\", timeout: 1s }
defaults: { consistency: leased, on_store_failure: deny, expected_replicas: 4 }
limits:
  - { name: 1000-per-s, key: [user], algorithm: token_bucket, capacity: 1000, refill_rate: 1000/s }
";
        assert_eq!(&yaml[..expected.len()], expected);
        assert_eq!(yaml.lines().count(), 4 + ALL.len());
    }
}
