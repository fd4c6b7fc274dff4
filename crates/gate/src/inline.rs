//! The limits that requests bring along: read once, then found by their text.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use parking_lot::RwLock;
use tollgate::{Limit, Rule};
use tollgate_rules::{InlineLimits, RequestedLimit, SelectError, Selector};

use crate::metrics::InlineMetrics;

/// The most limits that are kept. Programs bring few different ones.
const RULES_MAX: usize = 4_096;
/// The longest text of a limit that is kept, in bytes.
const TEXT_MAX: usize = 512;

/// The rules of the limits that requests brought along, by their text: reading one takes longer than
/// a decision in memory.
#[derive(Debug)]
pub(super) struct InlineRules {
    rules: RwLock<HashMap<Box<str>, Rule, RandomState>>,
    metrics: Arc<InlineMetrics>,
    /// The position of the rule in the first slot of the metrics: it follows those of all other
    /// limits.
    first_position: usize,
}

impl InlineRules {
    pub(super) fn new(metrics: Arc<InlineMetrics>, first_position: usize) -> Self {
        Self {
            rules: RwLock::default(),
            metrics,
            first_position,
        }
    }

    /// The rules of the limits that a request brings along, in their order.
    pub(super) fn read(
        &self,
        config: &InlineLimits,
        selector: &Selector,
        limits: &[RequestedLimit<'_>],
    ) -> Result<Vec<Rule>, SelectError> {
        let mut rules = Vec::new();
        for (index, limit) in limits.iter().enumerate() {
            let Some(text) = &limit.inline else {
                continue;
            };

            let known = self.rules.read().get(&**text).copied();
            rules.push(match known {
                Some(rule) => rule,
                None => self.read_new(config, selector, text, &limit.name, index)?,
            });
        }
        Ok(rules)
    }

    #[cold]
    fn read_new(
        &self,
        config: &InlineLimits,
        selector: &Selector,
        text: &str,
        name: &str,
        index: usize,
    ) -> Result<Rule, SelectError> {
        // Two limits with one name would share counters, or look as if they did.
        if selector.limit(name).is_ok() {
            return Err(SelectError::Configured {
                limit: name.to_owned(),
            });
        }
        let rule = self.positioned(&config.parse(text, index)?);
        if text.len() <= TEXT_MAX {
            let mut rules = self.rules.write();
            if rules.len() >= RULES_MAX {
                rules.clear();
            }
            rules.insert(text.into(), rule);
        }
        Ok(rule)
    }

    /// A rule of a token that a request brought along, if a request may still do so.
    pub(super) fn read_again(
        &self,
        config: &InlineLimits,
        selector: &Selector,
        rule: &Rule,
    ) -> Result<Rule, SelectError> {
        let name = rule.name();
        if selector.limit(name).is_ok() {
            return Err(SelectError::Configured {
                limit: name.to_string(),
            });
        }
        config.permit(name, rule.quota().limit())?;
        Ok(self.positioned(rule))
    }

    fn positioned(&self, rule: &Rule) -> Rule {
        let position = self.first_position + self.metrics.slot(rule.name());
        let position = u32::try_from(position).unwrap_or(u32::MAX);
        rule.with_position(position).without_share()
    }

    /// Whether a request brought this rule along.
    pub(super) const fn contains(&self, rule: &Rule) -> bool {
        rule.position() >= self.first_position
    }

    /// The metrics of a rule that a request brought along.
    pub(super) fn metrics(&self, rule: &Rule) -> Option<&crate::metrics::LimitMetrics> {
        let slot = rule.position().checked_sub(self.first_position)?;
        self.metrics.get(slot)
    }

    /// The metrics of a limit that a request brought along, by its name.
    pub(super) fn metrics_of(&self, name: &str) -> Option<&crate::metrics::LimitMetrics> {
        self.metrics.get(self.metrics.slot(name))
    }
}

/// A limit as a token carries it, so that any replica finds it again. No name has one of the first
/// characters of the other two.
#[derive(Debug)]
pub(super) enum TokenLimit<'t> {
    /// The name of a configured limit or of an override.
    Named(&'t str),
    /// The same with the quota of a tier, of an operator or of the request: `=` and a JSON object.
    WithQuota(Rule),
    /// All of a limit that a request brought along: a JSON object.
    Inline(Rule),
}

impl<'t> TokenLimit<'t> {
    pub(super) fn from_text(text: &'t str) -> Self {
        let rule = |json: &str| {
            let limit: Limit = serde_json::from_str(json).ok()?;
            limit.validate().ok()
        };
        let read = match text.strip_prefix('=') {
            Some(json) => rule(json).map(Self::WithQuota),
            None => rule(text).map(Self::Inline),
        };
        read.unwrap_or(Self::Named(text))
    }

    pub(super) fn to_text(&self) -> String {
        let json = |rule: &Rule| {
            serde_json::to_string(&Limit::from(*rule)).expect("a rule is a valid limit")
        };
        match self {
            Self::Named(name) => (*name).to_owned(),
            Self::WithQuota(rule) => format!("={}", json(rule)),
            Self::Inline(rule) => json(rule),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::algorithm::AMOUNT_MAX;
    use tollgate::{Calendar, Consistency, FailurePolicy, Rate};

    use super::*;

    /// A token of a permit must stay short enough for a header.
    #[test]
    fn the_longest_limits_survive_the_text_of_a_token() {
        let name = "x".repeat(47);
        let long = Duration::from_micros(3_653 * 86_400 * 1_000_000 - 1);
        let rate = Rate::new(9_999_999, Duration::from_micros(2_591_999_999_999));
        for limit in [
            Limit::fixed_window(&name, AMOUNT_MAX, long),
            Limit::calendar_window(&name, AMOUNT_MAX, Calendar::Month),
            Limit::sliding_window(&name, AMOUNT_MAX, long),
            Limit::sliding_log(&name, AMOUNT_MAX, long),
            Limit::token_bucket(&name, 9_999_999, rate),
            Limit::leaky_bucket(&name, 9_999_999, rate),
            Limit::queue(&name, 9_999_999, rate),
            Limit::concurrency(&name, 65_536, long),
        ] {
            let limit = limit
                .consistency(Consistency::Eventual)
                .on_store_failure(FailurePolicy::Local)
                .shadow();
            let rule = limit.validate().expect("a valid limit");

            for limit in [TokenLimit::Inline(rule), TokenLimit::WithQuota(rule)] {
                let text = limit.to_text();
                assert!(text.len() <= 400, "{text}");
                let read = TokenLimit::from_text(&text);
                assert_eq!(format!("{read:?}"), format!("{limit:?}"));
            }
        }
    }

    #[test]
    fn a_name_is_no_inline_limit() {
        for text in ["api", "1", "{}", "={}", r#"{"name": "api"}"#] {
            let read = TokenLimit::from_text(text);
            assert!(matches!(read, TokenLimit::Named(name) if name == text));
            assert_eq!(read.to_text(), text);
        }
    }
}
