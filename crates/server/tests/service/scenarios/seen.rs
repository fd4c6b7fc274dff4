//! What a client sees of an operation. Fronts leave out what their protocol does not tell.

use std::collections::BTreeMap;

use super::table::{Answer, Step};

#[derive(Debug)]
pub(super) struct Seen {
    pub(super) is: Answer,
    pub(super) degraded: Option<bool>,
    /// The limit and what remains of it, by the name of the limit.
    pub(super) told: Option<BTreeMap<String, (u64, u64)>>,
    /// Seconds until a retry, rounded up; none if there is no time. It comes with the numbers.
    pub(super) retry_s: Option<u64>,
    pub(super) charged: Option<u64>,
    pub(super) reservation: Option<String>,
    /// What the front received, for a failing test.
    pub(super) raw: String,
}

impl Seen {
    pub(super) fn new(is: Answer, raw: impl Into<String>) -> Self {
        Self {
            is,
            degraded: None,
            told: None,
            retry_s: None,
            charged: None,
            reservation: None,
            raw: raw.into(),
        }
    }

    pub(super) fn done() -> Self {
        Self::new(Answer::Done, "")
    }

    /// What the header fields of a decision tell: `RateLimit-Policy`, `RateLimit` and `Retry-After`.
    pub(super) fn with_fields<'f>(mut self, field: impl Fn(&str) -> Option<&'f str>) -> Self {
        let [limits, remaining] = [("ratelimit-policy", "q"), ("ratelimit", "r")]
            .map(|(name, parameter)| parameters(field(name).unwrap_or_default(), parameter));
        let told = limits.into_iter().filter_map(|(name, limit)| {
            let remaining = remaining.get(&name)?;
            Some((name, (limit, *remaining)))
        });
        self.told = Some(told.collect());
        self.degraded = Some(field("x-ratelimit-fallback").is_some());
        let retry = field("retry-after");
        self.retry_s = retry.map(|text| text.parse().expect("whole seconds"));
        self
    }

    /// What differs from the step.
    pub(super) fn differences(&self, step: &Step) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |name: &str, is_right: bool, seen: String, expected: String| {
            if !is_right {
                found.push(format!("{name} {seen}, expected {expected}: {}", self.raw));
            }
        };
        let text = |value: &dyn std::fmt::Debug| format!("{value:?}");

        compare("is", self.is == step.is, text(&self.is), text(&step.is));
        if let Some(degraded) = self.degraded {
            let is_right = degraded == step.degraded;
            compare("degraded", is_right, text(&degraded), text(&step.degraded));
        }
        if let (Some(told), Some(expected)) = (&self.told, &step.told) {
            compare("told", told == expected, text(told), text(expected));
        }
        if self.told.is_some() {
            let is_right = match (self.retry_s, step.retry_s) {
                (None, None) => true,
                (Some(secs), Some((least, most))) => (least..=most).contains(&secs),
                // The table leaves out what depends on more than the step.
                (Some(_), None) => step.is == Answer::Denied,
                (None, Some(_)) => false,
            };
            compare("retry", is_right, text(&self.retry_s), text(&step.retry_s));
        }
        for (name, seen, expected) in [
            (
                "charged",
                self.charged.map(|units| units.to_string()),
                step.charged.map(|units| units.to_string()),
            ),
            (
                "reservation",
                self.reservation.clone(),
                step.reservation.clone(),
            ),
        ] {
            if let (Some(seen), Some(expected)) = (seen, expected) {
                compare(name, seen == expected, seen, expected);
            }
        }
        found
    }
}

/// A parameter of each item of a structured field list, by the item's name.
fn parameters(list: &str, parameter: &str) -> BTreeMap<String, u64> {
    let items = list.split(',').filter_map(|item| {
        let mut parts = item.trim().split(';');
        let name = parts.next()?.trim_matches('"').to_owned();
        let value = parts.find_map(|part| part.strip_prefix(parameter)?.strip_prefix('='))?;
        Some((name, value.parse().ok()?))
    });
    items.collect()
}
