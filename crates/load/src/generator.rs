//! Generates what differs from request to request: the key, the source address and the cost.

use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use fastrand::Rng;

use crate::keys::KeyDistribution;

/// The source addresses of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceAddresses {
    /// Each key has one address of its own.
    PerKey,
    /// Each request picks one of this number of addresses at random, whatever its key. This is the
    /// pattern of credential stuffing: the same account from thousands of addresses.
    Pool(NonZeroU32),
}

/// A range of costs. Requests pick from it uniformly at random.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostRange(RangeInclusive<u64>);

impl CostRange {
    /// The costs from `min` to `max`, both inclusive. `None` if `min` is greater than `max`.
    pub fn new(min: u64, max: u64) -> Option<Self> {
        (min <= max).then_some(Self(min..=max))
    }

    fn sample(&self, random: &mut Rng) -> u64 {
        random.u64(self.0.clone())
    }
}

/// The parameters of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestParams {
    /// Index of the key in the [`KeyDistribution`].
    pub key: u32,
    /// Index of the source address.
    pub address: u32,
    /// `None` if the request leaves the cost to the limits.
    pub cost: Option<u64>,
}

/// One request of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledRequest {
    /// When it is due, in microseconds since the load started.
    pub due_us: u64,
    /// Index of the replica it is sent to.
    pub replica: usize,
    /// What differs from request to request.
    pub params: RequestParams,
}

/// Generates request parameters. The same seed generates the same sequence.
#[derive(Debug)]
pub(crate) struct RequestGenerator<'p> {
    pub(crate) keys: &'p KeyDistribution,
    pub(crate) addresses: SourceAddresses,
    pub(crate) cost: Option<&'p CostRange>,
    pub(crate) random: Rng,
}

impl RequestGenerator<'_> {
    pub(crate) fn next(&mut self) -> RequestParams {
        let key = self.keys.sample(&mut self.random);
        let address = match self.addresses {
            SourceAddresses::PerKey => key,
            SourceAddresses::Pool(count) => self.random.u32(..count.get()),
        };

        RequestParams {
            key,
            address,
            cost: self.cost.map(|range| range.sample(&mut self.random)),
        }
    }
}

/// The address with this index, in the private network 10.0.0.0/8. Addresses repeat after 2^24.
pub(crate) fn address(index: u32) -> Ipv4Addr {
    let [_, a, b, c] = index.wrapping_add(1).to_be_bytes();
    Ipv4Addr::new(10, a, b, c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_per_key_or_from_a_pool() {
        let keys = KeyDistribution::uniform(NonZeroU32::new(1_000).unwrap());
        let costs = CostRange::new(2, 4);
        let pool = SourceAddresses::Pool(NonZeroU32::new(50_000).unwrap());
        let generator = |addresses| RequestGenerator {
            keys: &keys,
            addresses,
            cost: costs.as_ref(),
            random: Rng::with_seed(5),
        };
        let mut per_key = generator(SourceAddresses::PerKey);
        assert!(
            (0..100)
                .map(|_| per_key.next())
                .all(|params| params.key == params.address)
        );
        let mut pooled = generator(pool);
        let params: Vec<RequestParams> = (0..1_000).map(|_| pooled.next()).collect();
        assert!(
            params.iter().any(|params| params.address > 1_000)
                && params.iter().all(|params| params.address < 50_000)
        );
        assert!((2..=4).all(|cost| params.iter().any(|params| params.cost == Some(cost))));
        let mut again = generator(pool);
        assert!(
            params.iter().all(|params| *params == again.next()),
            "the same seed must generate the same requests"
        );
        assert_eq!(CostRange::new(3, 2), None);
    }

    #[test]
    fn addresses_are_private_and_differ() {
        assert_eq!(address(0), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(address(256), Ipv4Addr::new(10, 0, 1, 1));
        assert_eq!(address(u32::MAX), Ipv4Addr::new(10, 0, 0, 0));
    }
}
