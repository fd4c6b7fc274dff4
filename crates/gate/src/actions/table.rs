//! All actions in force, ready to be looked up by the demands of a request.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use ahash::RandomState;
use smallvec::SmallVec;
use tollgate::{Demand, EncodedKey, KeyPart, Micros, Quota, Retry, Rule};
use tollgate_rules::{Explanation, LimitConfig, Selector, StandingKey, StandingList};
use tollgate_subject::Network;

use super::action::{Action, ActionChange, ActionTarget, BlockStatus};
use super::quota_change::{Multiple, QuotaChange};

/// The actions of a configuration. Immutable: every change builds another one.
#[derive(Debug, Default)]
pub(crate) struct ActionTable {
    /// By the position of the limit; none for a limit without actions.
    limits: Vec<Option<Box<LimitActions>>>,
    /// Why actions have no effect, by their id.
    ignored: BTreeMap<String, String>,
}

/// The actions on one limit.
#[derive(Debug, Default)]
struct LimitActions {
    /// The limit as a shadow limit or not, and until when.
    shadow: Option<(Rule, Micros)>,
    /// By the bytes of an encoded key.
    keys: HashMap<Box<[u8]>, TargetActions, RandomState>,
    networks: HashMap<Network, TargetActions, RandomState>,
    /// The lengths of prefixes that some network has, the longest first.
    prefixes: Vec<u8>,
}

/// The actions on one key or network.
#[derive(Debug, Default)]
struct TargetActions {
    /// What operators did.
    acted: TargetEffects,
    /// What the file lists.
    standing: TargetEffects,
}

/// What happens to the requests of a key or network, and until when.
#[derive(Debug, Default)]
struct TargetEffects {
    block: Option<(BlockStatus, Micros)>,
    exempt: Option<Micros>,
    quota: Option<Box<(QuotaEffect, Micros)>>,
}

/// The quota of an override.
#[derive(Clone, Copy, Debug)]
enum QuotaEffect {
    Fixed(Quota),
    Scaled(Multiple),
}

/// What the actions do to one demand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DemandEffect<'t> {
    /// The limit as a shadow limit or not, if it was switched.
    pub(super) rule: Option<&'t Rule>,
    /// Another quota.
    pub(super) quota: Option<Quota>,
    /// What happens in place of asking the limit.
    pub(super) bypass: Option<BypassEffect>,
}

/// How a request is decided without asking its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BypassEffect {
    Block(BlockStatus, Retry),
    Exempt,
}

impl ActionTable {
    /// The table of these actions, and of the lists of the file.
    pub(crate) fn new<'a>(
        selector: &Selector,
        actions: impl IntoIterator<Item = &'a Action>,
    ) -> Self {
        let mut table = Self::default();
        for limit in selector.limits() {
            table.add_standing(selector, limit);
        }
        for action in actions {
            if let Err(reason) = table.add(selector, action) {
                table.ignored.insert(action.id.clone(), reason);
            }
        }

        for limit in table.limits.iter_mut().flatten() {
            limit.sort_prefixes();
        }
        table
    }

    /// Adds the lists of the file.
    fn add_standing(&mut self, selector: &Selector, limit: &LimitConfig) {
        let position = limit.rule.position();
        let status = BlockStatus::from_code(limit.blocked.status).unwrap_or_default();

        for target in standing_targets(selector, limit, &limit.blocked.list) {
            if let Some(target) = self.limit_mut(position).target_mut(&target) {
                target.standing.block = Some((status, Micros::MAX));
            }
        }
        for target in standing_targets(selector, limit, &limit.exempt) {
            if let Some(target) = self.limit_mut(position).target_mut(&target) {
                target.standing.exempt = Some(Micros::MAX);
            }
        }
    }

    /// The keys with actions, with the positions of their limits; none if there are actions that
    /// do not name their keys.
    pub(super) fn keys(&self) -> Option<Vec<(usize, &[u8])>> {
        let mut keys = Vec::new();
        for (position, limit) in self.limits.iter().enumerate() {
            let Some(limit) = limit else { continue };
            if limit.shadow.is_some() || !limit.networks.is_empty() {
                return None;
            }
            keys.extend(limit.keys.keys().map(|key| (position, &**key)));
        }
        Some(keys)
    }

    /// Why an action has no effect; none if it has.
    pub(crate) fn ignored(&self, id: &str) -> Option<&str> {
        self.ignored.get(id).map(String::as_str)
    }

    /// Adds an action, or tells why it does not fit the configuration.
    fn add(&mut self, selector: &Selector, action: &Action) -> Result<(), String> {
        let limit = selector.limit(&action.limit);
        let limit = limit.map_err(|_| format!("there is no limit {:?} now", action.limit))?;
        let position = limit.rule.position();
        let until = action.expires_at;

        if let ActionChange::Shadow(shadow) = action.change {
            let rule = limit.rule.with_shadow(shadow);
            self.limit_mut(position).shadow = Some((rule, until));
            return Ok(());
        }

        let effects = effects_of(&action.change, limit, until)?;
        match &action.target {
            ActionTarget::Key(key) if selector.display_key(position, key).is_none() => {
                return Err(format!(
                    "the key of the limit {:?} has changed",
                    action.limit
                ));
            }
            ActionTarget::Network(_) if !selector.counts_by_address(position) => {
                return Err(format!(
                    "the limit {:?} does not count by `client_ip` now",
                    action.limit
                ));
            }
            _ => {}
        }
        if let Some(target) = self.limit_mut(position).target_mut(&action.target) {
            target.acted.add(effects);
        }
        Ok(())
    }

    fn limit_mut(&mut self, position: usize) -> &mut LimitActions {
        if self.limits.len() <= position {
            self.limits.resize_with(position + 1, || None);
        }
        self.limits[position].get_or_insert_default()
    }

    fn limit(&self, demand: &Demand<'_, EncodedKey>) -> Option<&LimitActions> {
        self.limits.get(demand.limit.position())?.as_deref()
    }

    /// Whether there is an action on this demand, in force or not.
    pub(super) fn touches(&self, demand: &Demand<'_, EncodedKey>) -> bool {
        self.limit(demand).is_some_and(|limit| {
            limit.shadow.is_some() || limit.targets(&demand.key).next().is_some()
        })
    }

    /// What the actions do to this demand at this time.
    pub(super) fn effect(&self, demand: &Demand<'_, EncodedKey>, now: Micros) -> DemandEffect<'_> {
        let Some(limit) = self.limit(demand) else {
            return DemandEffect::default();
        };

        let targets: SmallVec<[&TargetActions; 4]> = limit.targets(&demand.key).collect();
        // What operators did comes before the file, and a key before a network.
        let acted = targets.iter().map(|target| &target.acted);
        let standing = targets.iter().map(|target| &target.standing);
        let layers = || acted.clone().chain(standing.clone());
        let quota = layers().find_map(|effects| effects.quota(now));
        DemandEffect {
            rule: limit.shadow(now),
            quota: quota.map(|effect| effect.apply(demand.quota())),
            bypass: layers().find_map(|effects| effects.bypass(now)),
        }
    }
}

/// The keys and networks of a list. The configuration has checked that the keys are complete.
fn standing_targets(
    selector: &Selector,
    limit: &LimitConfig,
    list: &StandingList,
) -> Vec<ActionTarget> {
    let key = |key: &StandingKey| {
        let explained = selector.explain_named(limit.rule.name(), key);
        match explained.map(|(_, explanation)| explanation) {
            Ok(Explanation::Applies { demand, .. }) => Some(ActionTarget::Key(demand.key)),
            _ => None,
        }
    };
    let networks = list.networks.iter().copied().map(ActionTarget::Network);
    let is_address = selector.counts_by_address(limit.rule.position());
    let networks = networks.filter(|_| is_address);
    list.keys.iter().filter_map(key).chain(networks).collect()
}

/// What a change does to a target until this time.
fn effects_of(
    change: &ActionChange,
    limit: &LimitConfig,
    until: Micros,
) -> Result<TargetEffects, String> {
    let mut effects = TargetEffects::default();
    match change {
        ActionChange::Block(status) => effects.block = Some((*status, until)),
        ActionChange::Exempt => effects.exempt = Some(until),
        ActionChange::Override(QuotaChange::Multiply(multiple)) => {
            effects.quota = Some(Box::new((QuotaEffect::Scaled(*multiple), until)));
        }
        ActionChange::Override(change) => {
            let fixed = change
                .fixed_quota(limit)
                .map_err(|error| error.to_string())?;
            effects.quota = fixed.map(|quota| Box::new((QuotaEffect::Fixed(quota), until)));
        }
        ActionChange::Shadow(_) => {}
    }
    Ok(effects)
}

impl LimitActions {
    fn shadow(&self, now: Micros) -> Option<&Rule> {
        let (rule, until) = self.shadow.as_ref()?;
        (now < *until).then_some(rule)
    }

    fn target_mut(&mut self, target: &ActionTarget) -> Option<&mut TargetActions> {
        match target {
            ActionTarget::Limit => None,
            ActionTarget::Key(key) => Some(self.keys.entry(key.as_bytes().into()).or_default()),
            ActionTarget::Network(network) => Some(self.networks.entry(*network).or_default()),
        }
    }

    fn sort_prefixes(&mut self) {
        self.prefixes = self.networks.keys().map(Network::prefix).collect();
        self.prefixes.sort_unstable_by(|one, other| other.cmp(one));
        self.prefixes.dedup();
    }

    /// The actions on a key, then those on the networks of its address, the smallest first.
    fn targets(&self, key: &EncodedKey) -> impl Iterator<Item = &TargetActions> {
        // Most limits have no networks, and then the key is not decoded.
        let address = self.prefixes.first().and_then(|_| address(key));
        let networks = address.into_iter().flat_map(move |address| {
            let widest = if address.is_ipv4() { 32 } else { 128 };
            let prefixes = self
                .prefixes
                .iter()
                .filter(move |prefix| **prefix <= widest);
            let network = move |prefix: &u8| Network::around(address, *prefix);
            prefixes.filter_map(move |prefix| self.networks.get(&network(prefix)))
        });
        self.keys.get(key.as_bytes()).into_iter().chain(networks)
    }
}

/// The client address in a key.
fn address(key: &EncodedKey) -> Option<IpAddr> {
    key.parts().find_map(|part| match part {
        KeyPart::Address(address) => Some(address),
        _ => None,
    })
}

impl TargetEffects {
    /// Adds what another action does; of two blocks, exemptions or quotas the new one stays.
    fn add(&mut self, new: Self) {
        self.block = new.block.or(self.block);
        self.exempt = new.exempt.or(self.exempt);
        self.quota = new.quota.or_else(|| self.quota.take());
    }

    fn quota(&self, now: Micros) -> Option<QuotaEffect> {
        let (quota, until) = **self.quota.as_ref()?;
        (now < until).then_some(quota)
    }

    /// A block comes before an exemption.
    fn bypass(&self, now: Micros) -> Option<BypassEffect> {
        if let Some((status, until)) = self.block
            && now < until
        {
            let retry = match until {
                Micros::MAX => Retry::Never,
                _ => Retry::After(Duration::from(until.since(now))),
            };
            return Some(BypassEffect::Block(status, retry));
        }
        let exempt = self.exempt.is_some_and(|until| now < until);
        exempt.then_some(BypassEffect::Exempt)
    }
}

impl QuotaEffect {
    fn apply(self, quota: &Quota) -> Quota {
        match self {
            Self::Fixed(fixed) => fixed,
            Self::Scaled(multiple) => multiple.scale(quota),
        }
    }
}
