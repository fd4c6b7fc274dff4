//! Demands from a limit, a key and a cost alone, for programs that have looked up their limits.

use std::borrow::Cow;

use tollgate::{Demand, EncodedKey, Rule};
use tollgate_rules::{LimitDemands, RequestedLimit, Selection, validate_cost};

use super::active::ActiveConfig;
use crate::api::NamedAttributes;

/// A limit that a program has looked up.
#[derive(Clone, Debug)]
pub enum DirectLimit {
    /// Its demands need no selection: the key is what the caller says, the quota is that of the
    /// rule.
    Plain {
        /// The limit.
        rule: Box<Rule>,
        /// The units of a request that states no cost.
        cost: u64,
    },
    /// The configured limit of this name. The configuration makes its demands from the key.
    Selected(Box<str>),
}

impl ActiveConfig {
    /// A limit that a program has looked up; none if there is no such limit.
    pub fn direct_limit(&self, limit: &RequestedLimit<'_>) -> Option<DirectLimit> {
        if limit.inline.is_some() {
            let limits = std::slice::from_ref(limit);
            let rules = self
                .inline
                .read(&self.config.inline_limits, &self.selector, limits);
            let rule = Box::new(*rules.ok()?.first()?);
            return Some(DirectLimit::Plain { rule, cost: 1 });
        }

        let Some(plain) = self.selector.plain_limit(&limit.name) else {
            let known = self.selector.limit(&limit.name).ok()?;
            return Some(DirectLimit::Selected(known.rule.name().as_str().into()));
        };
        Some(DirectLimit::Plain {
            rule: Box::new(plain.rule),
            cost: plain.cost.as_ref().map_or(1, |cost| cost.default),
        })
    }

    /// Adds what a request with this key asks of a limit. Returns none if that is not valid, or
    /// depends on more than the key.
    #[inline]
    pub fn add_demand<'r>(
        &'r self,
        demands: &mut LimitDemands<'r>,
        limit: &'r DirectLimit,
        key: &str,
        cost: Option<u64>,
    ) -> Option<()> {
        match limit {
            DirectLimit::Plain {
                rule,
                cost: usual_cost,
            } => {
                validate_cost(cost).ok()?;
                let key = EncodedKey::new(key).ok().filter(|_| !key.is_empty())?;
                demands.push(Demand::new(rule, key).with_cost(cost.unwrap_or(*usual_cost)));
            }
            DirectLimit::Selected(name) => demands.extend(self.select_by_key(name, key, cost)?),
        }
        Some(())
    }

    /// What a request without attributes asks of a configured limit. None if it asks nothing, which
    /// the caller must learn.
    fn select_by_key(&self, name: &str, key: &str, cost: Option<u64>) -> Option<Selection<'_>> {
        let limit = RequestedLimit {
            name: Cow::Borrowed(name),
            key: Some(Cow::Borrowed(key)),
            cost,
            inline: None,
        };
        let attributes = NamedAttributes::default();
        let selected = self
            .selector
            .select_requested(&[limit], &[], &attributes, None, |_| {});
        selected.ok().filter(|demands| !demands.is_empty())
    }
}
