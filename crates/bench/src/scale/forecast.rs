//! The kinds of traffic, with their keys in strata of similar rates. Simulates a key of each stratum
//! with the real lease tables, and adds up all keys.

use crate::harness::prelude::*;
use std::ops::Range;
use testkit::dice::Dice;
use testkit::fleet::{self, Audit, Plan};
use tollgate::store::lease::LeaseTerms;
use tollgate::{Quota, Rate, TokenBucket};

/// A replica has entries for at most this many keys. It decides further keys strictly.
const ENTRIES_MAX: f64 = 65_536.0;
/// If a replica gets fewer requests for a key than this while it remembers the key, nearly every
/// request is the first one, which the store decides.
const COLD: f64 = 0.02;
/// The strata whose keys are assigned to shards one by one. Later ones are spread evenly.
const ASSIGNED_STRATA: usize = 16;

/// How much is simulated of each key: the least requests and seconds, and the seed.
pub(super) type Effort = (f64, f64, u64);

/// What the decisions about all keys cost and admit: a sample for each stratum. Strata without one
/// are decided strictly, with one call for every decision, exact by definition.
#[derive(Default)]
pub(super) struct Forecast(Vec<Sample>);

/// What a request for a key of a stratum costs and gets on average.
#[derive(Clone, Copy)]
struct Sample {
    calls: f64,
    local: f64,
    admitted: f64,
    /// Admitted by one central counter.
    ideal: f64,
    false_denials: f64,
    over: f64,
}

impl Forecast {
    pub(super) fn leased(keys: &Keys, replicas: u32, effort: Effort) -> Self {
        let memory = LeaseTerms::for_quota(&keys.quota).long;
        let per_memory = float(memory.get()) / 1e6 / f64::from(replicas);
        let mut entries = 0.0;

        let is_leased = |stratum: &&Stratum| {
            let expected = stratum.mean_rate() * per_memory;
            entries += float(stratum.size()) * (1.0 - (-expected).exp());
            entries <= ENTRIES_MAX && expected >= COLD
        };
        let leased = keys.strata.iter().take_while(is_leased);
        let sample = |stratum| Sample::simulated(keys, stratum, replicas, effort);
        Self(leased.map(sample).collect())
    }

    /// The figures of a cluster on which a call takes `call_us` of CPU time.
    pub(super) fn figures(&self, keys: &Keys, call_us: f64) -> Figures {
        let strata = keys.strata.iter().enumerate();
        let samples = strata.map(|(index, stratum)| (stratum.rate, self.sample(index)));
        let samples: Vec<(f64, Sample)> = samples.collect();
        let sum = |figure: fn(&Sample) -> f64| -> f64 {
            let weighed = samples.iter().map(|(rate, sample)| rate * figure(sample));
            weighed.sum()
        };
        let most = |figure: fn(&Sample) -> f64| {
            let values = samples.iter().map(|(_, sample)| figure(sample));
            values.fold(0.0, f64::max)
        };
        let per_request = |figure| sum(figure) / keys.rate;
        let busiest = self.busiest_shard(keys);

        Figures::from([
            ("calls_per_s", sum(|one| one.calls)),
            ("calls_per_request", per_request(|one| one.calls)),
            // Script calls per second of the busiest shard.
            ("busiest_shard_calls_per_s", busiest),
            // The share of a core that the busiest shard needs.
            ("busiest_shard_cpu", busiest * call_us / 1e6),
            // The share of requests that a replica decides without a store call.
            ("local_share", per_request(|one| one.local)),
            // Units admitted, relative to one central counter.
            (
                "utilisation",
                sum(|one| one.admitted) / sum(|one| one.ideal),
            ),
            // Denials of keys that one central counter never denies, per million requests.
            (
                "false_denials_per_million",
                per_request(|one| one.false_denials) * 1e6,
            ),
            // The same of the simulated key that has most.
            ("worst_key_calls_per_request", most(|one| one.calls)),
            // The most units of any key above what the limit allows, over any interval; at least 0.
            ("over", most(|one| one.over)),
        ])
    }

    fn sample(&self, stratum: usize) -> Sample {
        self.0.get(stratum).copied().unwrap_or(Sample::STRICT)
    }

    /// Calls per second of the busiest shard, if hash slots distribute keys at random.
    fn busiest_shard(&self, keys: &Keys) -> f64 {
        let mut shards = [0.0; SHARDS];
        for (index, stratum) in keys.strata.iter().enumerate() {
            let calls = stratum.rate * self.sample(index).calls;
            if index >= ASSIGNED_STRATA {
                let even = calls / float(SHARDS as u64);
                shards.iter_mut().for_each(|shard| *shard += even);
                continue;
            }

            let sum: f64 = stratum.ranks.clone().map(weight).sum();
            for rank in stratum.ranks.clone() {
                let shard = Dice::new(rank).below(SHARDS as u64);
                shards[whole(float(shard))] += calls * weight(rank) / sum;
            }
        }
        shards.into_iter().fold(0.0, f64::max)
    }
}

impl Sample {
    const STRICT: Self = Self {
        calls: 1.0,
        local: 0.0,
        admitted: 1.0,
        ideal: 1.0,
        false_denials: 0.0,
        over: 0.0,
    };

    /// Simulates one key of the mean rate, for as long as it takes to get enough requests.
    fn simulated(keys: &Keys, stratum: &Stratum, replicas: u32, effort: Effort) -> Self {
        let rate = stratum.mean_rate();
        let (requests_min, length_min_s, seed) = effort;
        let length_s = length_min_s.max(requests_min / rate);
        let [requests, length] = [rate * length_s, length_s * 1e6].map(|count| whole(count) as u64);
        let seed = seed << 32 | stratum.ranks.start;
        let plan = Plan::calm(seed, keys.quota, replicas as usize, requests, length);
        let audit = Audit::of(&plan, &fleet::run(&plan, false));

        // Only denials of keys that stay within the limit are false.
        let is_within_limit = audit.ideal == audit.requests;
        let missing = u64::from(is_within_limit) * (audit.requests - audit.admitted);
        let share = |count: u64| float(count) / float(audit.requests);
        Self {
            calls: share(audit.calls),
            local: share(audit.local),
            admitted: share(audit.admitted),
            ideal: share(audit.ideal),
            false_denials: share(missing),
            over: float(u64::try_from(audit.excess).unwrap_or_default()),
        }
    }
}

/// The shards of the cluster.
const SHARDS: usize = 100;
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
        capacity: per_second,
        refill: Rate::per_second(per_second),
        ..many_keys(name, rate, 1)
    }
}

/// All keys of a kind of traffic, the busiest first.
pub(super) struct Keys {
    quota: Quota,
    rate: f64,
    strata: Vec<Stratum>,
}

/// Keys with similar rates: the ranks from a power of two to the next.
struct Stratum {
    ranks: Range<u64>,
    /// Requests per second of all keys of the stratum together.
    rate: f64,
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
fn weight(rank: u64) -> f64 {
    float(rank).powf(-EXPONENT)
}

impl Stratum {
    fn size(&self) -> u64 {
        self.ranks.end - self.ranks.start
    }

    /// Requests per second of a key of the mean rate.
    fn mean_rate(&self) -> f64 {
        self.rate / float(self.size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of one kind of traffic with this number of replicas.
    fn figures(traffic: usize, replicas: u32, seed: u64) -> Figures {
        let keys = TRAFFIC[traffic].keys();
        Forecast::leased(&keys, replicas, (5e2, 5.0, seed)).figures(&keys, 100.0)
    }

    #[test]
    fn a_seed_repeats_its_forecast() {
        assert_eq!(figures(2, 4, 1), figures(2, 4, 1));
        assert_ne!(figures(2, 4, 1), figures(2, 4, 2));
    }

    #[test]
    fn strict_calls_the_store_for_every_request() {
        let keys = TRAFFIC[4].keys();
        let strict = Forecast::default().figures(&keys, 100.0);
        assert_eq!(whole(strict["calls_per_s"]), 2_000);
        // The shard with the first key gets at least its requests, which take 100 us each.
        let first = keys.strata[0].rate;
        assert!(
            strict["busiest_shard_calls_per_s"] >= first
                && strict["busiest_shard_cpu"] >= first / 1e4
        );
    }

    #[test]
    fn a_hot_key_is_leased_and_keys_that_are_never_seen_twice_are_strict() {
        let hot = figures(0, 4, 1);
        assert!(hot["calls_per_request"] < 0.1, "{hot:?}");
        assert!(hot["utilisation"] > 0.99 && hot["over"] <= 0.0, "{hot:?}");

        let keys = TRAFFIC[4].keys();
        let forecast = Forecast::leased(&keys, 10_000, (5e2, 5.0, 1));
        let leased = forecast.0.len();
        assert!((1..keys.strata.len()).contains(&leased), "{leased}");
    }

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
