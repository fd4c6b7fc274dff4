//! Looks up the standing lists of the file: which demands a limit always denies or lets pass.
//!
//! The service has actions besides the lists, and looks up both in one table. This one is for a
//! replay, which knows the file only.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

use tollgate::{Demand, EncodedKey, KeyPart};
use tollgate_subject::Network;

use super::{Explanation, Selector};
use crate::limit::{LimitConfig, StandingKey, StandingList};

/// What a list of the file does to a demand, in place of asking its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandingEffect {
    /// The request is denied, and charged to no limit.
    Block,
    /// The limit is not asked.
    Exempt,
}

/// The standing lists of all limits.
#[derive(Debug, Default)]
pub struct StandingIndex {
    /// By the position of the limit; none for a limit without lists.
    limits: Vec<Option<StandingTargets>>,
}

/// The lists of one limit.
#[derive(Debug, Default)]
struct StandingTargets {
    keys: HashMap<EncodedKey, StandingEffect>,
    /// The smallest networks first, and of equal ones those that are blocked. At most 2,000.
    networks: Vec<(Network, StandingEffect)>,
}

impl StandingIndex {
    /// The lists of the limits of a configuration.
    pub fn new(selector: &Selector) -> Self {
        let targets = selector.limits().iter();
        Self {
            limits: targets
                .map(|limit| StandingTargets::new(selector, limit))
                .collect(),
        }
    }

    /// Whether no limit has a list.
    pub fn is_empty(&self) -> bool {
        self.limits.iter().all(Option::is_none)
    }

    /// What the lists do to a demand. A key comes before a network, a smaller network before a
    /// larger one, and a block before an exemption.
    pub fn effect(&self, demand: &Demand<'_, EncodedKey>) -> Option<StandingEffect> {
        let limit = self.limits.get(demand.limit.position())?.as_ref()?;
        let by_key = limit.keys.get(&demand.key).copied();
        by_key.or_else(|| limit.network_effect(address(&demand.key)?))
    }
}

impl StandingTargets {
    fn new(selector: &Selector, limit: &LimitConfig) -> Option<Self> {
        let mut targets = Self::default();
        // A block replaces an exemption of the same key.
        targets.add(selector, limit, &limit.exempt, StandingEffect::Exempt);
        targets.add(selector, limit, &limit.blocked.list, StandingEffect::Block);

        let is_exempt = |effect: &StandingEffect| *effect == StandingEffect::Exempt;
        let order =
            |(network, effect): &(Network, _)| (Reverse(network.prefix()), is_exempt(effect));
        targets.networks.sort_by_key(order);
        let is_empty = targets.keys.is_empty() && targets.networks.is_empty();
        (!is_empty).then_some(targets)
    }

    fn add(
        &mut self,
        selector: &Selector,
        limit: &LimitConfig,
        list: &StandingList,
        effect: StandingEffect,
    ) {
        let key = |key: &StandingKey| match selector.explain_named(limit.rule.name(), key) {
            Ok((_, Explanation::Applies { demand, .. })) => Some((demand.key, effect)),
            _ => None,
        };
        self.keys.extend(list.keys.iter().filter_map(key));
        if selector.counts_by_address(limit.rule.position()) {
            let networks = list.networks.iter();
            self.networks
                .extend(networks.map(|network| (*network, effect)));
        }
    }

    fn network_effect(&self, address: IpAddr) -> Option<StandingEffect> {
        let mut networks = self.networks.iter();
        let found = networks.find(|(network, _)| network.contains(address));
        found.map(|(_, effect)| *effect)
    }
}

/// The client address in a key.
fn address(key: &EncodedKey) -> Option<IpAddr> {
    key.parts().find_map(|part| match part {
        KeyPart::Address(address) => Some(address),
        _ => None,
    })
}
