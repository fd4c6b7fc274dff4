//! What differs from request to request: who asks, from which address, for how much.

use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use fastrand::Rng;

use crate::keys::Keys;

/// Where clients ask from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Each from an address of its own.
    OfTheKey,
    /// Every request from any of so many, whoever asks: the same account from thousands of places.
    Among(NonZeroU32),
}

/// What requests cost: any of these, each as often as the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs(RangeInclusive<u64>);

impl Costs {
    /// From the least to the most; nothing if there is none between them.
    pub fn between(least: u64, most: u64) -> Option<Self> {
        (least <= most).then_some(Self(least..=most))
    }

    fn draw(&self, random: &mut Rng) -> u64 {
        random.u64(self.0.clone())
    }
}

/// One request, as it was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Draw {
    pub(crate) key: u32,
    pub(crate) address: u32,
    /// Nothing when the request says nothing about it.
    pub(crate) cost: Option<u64>,
}

/// Draws requests, the same ones for the same seed.
#[derive(Debug)]
pub(crate) struct Draws<'p> {
    pub(crate) keys: &'p Keys,
    pub(crate) addresses: Addresses,
    pub(crate) costs: Option<&'p Costs>,
    pub(crate) random: Rng,
}

impl Draws<'_> {
    pub(crate) fn next(&mut self) -> Draw {
        let key = self.keys.draw(&mut self.random);
        let address = match self.addresses {
            Addresses::OfTheKey => key,
            Addresses::Among(count) => self.random.u32(..count.get()),
        };
        Draw {
            key,
            address,
            cost: self.costs.map(|costs| costs.draw(&mut self.random)),
        }
    }
}

/// Addresses of a private network, 16 million of them before one comes again.
pub(crate) fn address(number: u32) -> Ipv4Addr {
    let [_, a, b, c] = number.wrapping_add(1).to_be_bytes();
    Ipv4Addr::new(10, a, b, c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_keys_or_any() {
        let keys = Keys::uniform(NonZeroU32::new(1_000).unwrap());
        let costs = Costs::between(2, 4);
        let among = Addresses::Among(NonZeroU32::new(50_000).unwrap());
        let draws = |addresses| Draws {
            keys: &keys,
            addresses,
            costs: costs.as_ref(),
            random: Rng::with_seed(5),
        };
        let mut own = draws(Addresses::OfTheKey);
        assert!(
            (0..100)
                .map(|_| own.next())
                .all(|draw| draw.key == draw.address)
        );
        let mut any = draws(among);
        let some: Vec<Draw> = (0..1_000).map(|_| any.next()).collect();
        assert!(
            some.iter().any(|draw| draw.address > 1_000)
                && some.iter().all(|draw| draw.address < 50_000)
        );
        assert!((2..=4).all(|cost| some.iter().any(|draw| draw.cost == Some(cost))));
        let mut again = draws(among);
        assert!(
            some.iter().all(|draw| *draw == again.next()),
            "the same seed, the same requests"
        );
        assert_eq!(Costs::between(3, 2), None);
    }

    #[test]
    fn addresses_are_private_and_differ() {
        assert_eq!(address(0), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(address(256), Ipv4Addr::new(10, 0, 1, 1));
        assert_eq!(address(u32::MAX), Ipv4Addr::new(10, 0, 0, 0));
    }
}
