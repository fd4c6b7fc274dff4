//! Simulates a few keys of each stratum with the real lease tables, and adds up all keys.

use testkit::dice::Dice;
use testkit::fleet::{self, Audit, Plan};
use tollgate::Micros;
use tollgate::store::lease::LeaseTerms;

use super::traffic::{Keys, SHARDS, Stratum, weight};
use super::{
    BUSIEST_CPU, BUSIEST_SHARD, CALLS_PER_REQUEST, CALLS_PER_S, FALSE_DENIALS, Figures,
    LOCAL_SHARE, OVER, UTILISATION, WORST_KEY,
};
use crate::harness::{float, whole};

/// A replica has entries for at most this many keys. It decides further keys strictly.
const ENTRIES_MAX: f64 = 65_536.0;
/// If a replica gets fewer requests for a key than this while it remembers the key, nearly every
/// request is the first one, which the store decides.
const COLD: f64 = 0.02;
/// The strata whose keys are assigned to shards one by one. Later ones are spread evenly.
const ASSIGNED_STRATA: usize = 16;

/// How much is simulated of each key.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    requests_min: f64,
    length_min_s: f64,
    seed: u64,
}

impl Effort {
    pub(super) const fn new(is_quick: bool, seed: u64) -> Self {
        let (requests_min, length_min_s) = if is_quick { (5e2, 5.0) } else { (1.5e3, 20.0) };
        Self {
            requests_min,
            length_min_s,
            seed,
        }
    }
}

/// What the decisions about all keys cost and admit.
pub(super) struct Forecast {
    /// One for each stratum. Strata without one are decided strictly.
    samples: Vec<Sample>,
}

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
    /// One call for every decision, exact by definition.
    pub(super) const fn strict() -> Self {
        Self {
            samples: Vec::new(),
        }
    }

    pub(super) fn leased(keys: &Keys, replicas: u32, effort: Effort) -> Self {
        let memory = LeaseTerms::for_quota(&keys.quota).long;
        let per_memory = seconds(memory) / f64::from(replicas);
        let mut entries = 0.0;

        let is_leased = |stratum: &&Stratum| {
            let expected = stratum.mean_rate() * per_memory;
            entries += float(stratum.size()) * (1.0 - (-expected).exp());
            entries <= ENTRIES_MAX && expected >= COLD
        };
        let leased = keys.strata.iter().take_while(is_leased);
        let sample = |stratum| Sample::simulated(keys, stratum, replicas, effort);
        Self {
            samples: leased.map(sample).collect(),
        }
    }

    /// The figures of a cluster on which a call takes `call_us` of CPU time.
    pub(super) fn figures(&self, keys: &Keys, call_us: f64) -> Figures {
        let sum = |figure: fn(&Sample) -> f64| -> f64 {
            let strata = keys.strata.iter().enumerate();
            let of = strata.map(|(index, stratum)| stratum.rate * figure(&self.sample(index)));
            of.sum()
        };
        let calls = sum(|sample| sample.calls);
        let busiest = self.busiest_shard(keys);
        let most = |figure: fn(&Sample) -> f64| {
            let sampled = (0..keys.strata.len()).map(|index| figure(&self.sample(index)));
            sampled.fold(0.0, f64::max)
        };

        Figures::from([
            (CALLS_PER_S, calls),
            (CALLS_PER_REQUEST, calls / keys.rate),
            (BUSIEST_SHARD, busiest),
            (BUSIEST_CPU, busiest * call_us / 1e6),
            (LOCAL_SHARE, sum(|sample| sample.local) / keys.rate),
            (
                UTILISATION,
                sum(|sample| sample.admitted) / sum(|sample| sample.ideal),
            ),
            (
                FALSE_DENIALS,
                sum(|sample| sample.false_denials) / keys.rate * 1e6,
            ),
            (WORST_KEY, most(|sample| sample.calls)),
            (OVER, most(|sample| sample.over)),
        ])
    }

    fn sample(&self, stratum: usize) -> Sample {
        self.samples.get(stratum).copied().unwrap_or(Sample::STRICT)
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
        let length_s = effort.length_min_s.max(effort.requests_min / rate);
        let [requests, length] = [rate * length_s, length_s * 1e6].map(|count| whole(count) as u64);
        let seed = effort.seed << 32 | stratum.ranks.start;
        let plan = Plan::calm(seed, keys.quota, replicas as usize, requests, length);
        let audit = Audit::of(&plan, &fleet::run(&plan, false));

        let is_within_limit = audit.ideal == audit.requests;
        let missing = if is_within_limit {
            audit.requests - audit.admitted
        } else {
            0
        };
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

fn seconds(length: Micros) -> f64 {
    float(length.get()) / 1e6
}

#[cfg(test)]
mod tests {
    use super::super::traffic::TRAFFIC;
    use super::*;

    /// The figures of one kind of traffic with this number of replicas.
    fn figures(traffic: usize, replicas: u32, seed: u64) -> Figures {
        let keys = TRAFFIC[traffic].keys();
        Forecast::leased(&keys, replicas, Effort::new(true, seed)).figures(&keys, 100.0)
    }

    #[test]
    fn a_seed_repeats_its_forecast() {
        assert_eq!(figures(2, 4, 1), figures(2, 4, 1));
        assert_ne!(figures(2, 4, 1), figures(2, 4, 2));
    }

    #[test]
    fn strict_calls_the_store_for_every_request() {
        let keys = TRAFFIC[4].keys();
        let strict = Forecast::strict().figures(&keys, 100.0);
        assert_eq!(whole(strict[CALLS_PER_S]), 2_000);
        // The shard with the first key gets at least its requests, which take 100 us each.
        let first = keys.strata[0].rate;
        assert!(strict[BUSIEST_SHARD] >= first && strict[BUSIEST_CPU] >= first / 1e4);
    }

    #[test]
    fn a_hot_key_is_leased_and_keys_that_are_never_seen_twice_are_strict() {
        let hot = figures(0, 4, 1);
        assert!(hot[CALLS_PER_REQUEST] < 0.1, "{hot:?}");
        assert!(hot[UTILISATION] > 0.99 && hot[OVER] <= 0.0, "{hot:?}");

        let keys = TRAFFIC[4].keys();
        let forecast = Forecast::leased(&keys, 10_000, Effort::new(true, 1));
        let leased = forecast.samples.len();
        assert!((1..keys.strata.len()).contains(&leased), "{leased}");
    }
}
