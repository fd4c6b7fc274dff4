//! The kinds of traffic, and their keys in strata of similar rates.

use std::ops::Range;

use tollgate::{Quota, Rate, TokenBucket};

use crate::harness::float;

/// The shards of the cluster.
pub(super) const SHARDS: usize = 100;
/// The exponent of the Zipf distribution of keys.
const EXPONENT: f64 = 1.1;

/// Requests for counters of one limit.
pub(super) struct Traffic {
    pub(super) name: &'static str,
    /// Requests per second at all replicas together.
    rate: f64,
    keys: u64,
    /// The capacity of the token bucket of each key, and its refill rate.
    capacity: u64,
    refill: Rate,
}

pub(super) const TRAFFIC: [Traffic; 6] = [
    hot_key("1 key, never denied, 1,000/s", 1e3, 20_000),
    hot_key("1 key, never denied, 20,000/s", 2e4, 400_000),
    hot_key("1 key of 10/s, 1,000/s", 1e3, 10),
    hot_key("1 key of 100/s, 1,000/s", 1e3, 100),
    many_keys("20,000 keys of 100/min, 2,000/s", 2e3, 20_000),
    many_keys("10 million keys of 100/min, 100,000/s", 1e5, 10_000_000),
];

const fn many_keys(name: &'static str, rate: f64, keys: u64) -> Traffic {
    Traffic {
        name,
        rate,
        keys,
        capacity: 100,
        refill: Rate::per_minute(100),
    }
}

const fn hot_key(name: &'static str, rate: f64, per_second: u64) -> Traffic {
    Traffic {
        name,
        rate,
        keys: 1,
        capacity: per_second,
        refill: Rate::per_second(per_second),
    }
}

/// All keys of a kind of traffic, the busiest first.
pub(super) struct Keys {
    pub(super) quota: Quota,
    pub(super) rate: f64,
    pub(super) strata: Vec<Stratum>,
}

/// Keys with similar rates: the ranks from a power of two to the next.
pub(super) struct Stratum {
    pub(super) ranks: Range<u64>,
    /// Requests per second of all keys of the stratum together.
    pub(super) rate: f64,
}

impl Traffic {
    pub(super) fn keys(&self) -> Keys {
        let quota = TokenBucket::new(self.capacity, self.refill).expect("the limit is valid");
        let mut strata = Vec::new();
        let mut first = 1;
        while first <= self.keys {
            let ranks = first..(2 * first).min(self.keys + 1);
            let rate = ranks.clone().map(weight).sum();
            strata.push(Stratum { ranks, rate });
            first *= 2;
        }

        let sum: f64 = strata.iter().map(|stratum| stratum.rate).sum();
        strata
            .iter_mut()
            .for_each(|stratum| stratum.rate *= self.rate / sum);
        Keys {
            quota: quota.into(),
            rate: self.rate,
            strata,
        }
    }
}

/// The requests for a key, relative to those for the first one.
pub(super) fn weight(rank: u64) -> f64 {
    float(rank).powf(-EXPONENT)
}

impl Stratum {
    pub(super) fn size(&self) -> u64 {
        self.ranks.end - self.ranks.start
    }

    /// Requests per second of a key of the mean rate.
    pub(super) fn mean_rate(&self) -> f64 {
        self.rate / float(self.size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strata_cover_all_keys_and_requests() {
        for traffic in TRAFFIC.iter().filter(|traffic| traffic.keys < 100_000) {
            let keys = traffic.keys();
            let size: u64 = keys.strata.iter().map(Stratum::size).sum();
            let rate: f64 = keys.strata.iter().map(|stratum| stratum.rate).sum();
            assert_eq!(size, traffic.keys);
            assert!((rate - traffic.rate).abs() < 1e-6, "{rate}");
            assert!(
                keys.strata
                    .is_sorted_by(|one, next| one.mean_rate() > next.mean_rate())
            );
        }
    }
}
