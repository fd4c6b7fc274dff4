//! The lists that replicas share: the heaviest keys of each, as text.
//!
//! Keys are shared as the store has them: hashed where the limit hashes them.

use ahash::RandomState;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};
use tollgate::EncodedKey;

use super::row::KeyUsage;
use super::span::{UsageKind, UsageSpan};
use super::summary::UsageSummary;

/// The most keys of a list that are shared.
const KEYS_MAX: usize = 32;
/// The most bytes that a replica shares.
pub const TEXT_MAX: usize = 64 << 10;

/// The lists of one replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopLists(Vec<TopList>);

/// The heaviest keys of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TopList {
    limit: String,
    by: UsageKind,
    minutes: u8,
    /// The most units of a key that is not in the list.
    floor: u64,
    keys: Vec<SharedKey>,
}

/// The bytes of a key in base64, its units, how much too high they may be, and its requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SharedKey(String, u64, u64, u64);

impl TopLists {
    /// True if there is nothing to share.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a list, unless it is empty.
    pub(crate) fn push(
        &mut self,
        limit: &str,
        by: UsageKind,
        span: UsageSpan,
        summary: &UsageSummary,
    ) {
        let keys: Vec<SharedKey> = summary.rows().take(KEYS_MAX).map(SharedKey::new).collect();
        if keys.is_empty() {
            return;
        }
        self.0.push(TopList {
            limit: limit.to_owned(),
            by,
            minutes: span.minutes(),
            floor: summary.floor_below(KEYS_MAX),
            keys,
        });
    }

    /// Replaces the lists of the spans that `newer` has; the others stay.
    pub fn update(&mut self, newer: Self, spans: &[UsageSpan]) {
        let is_replaced = |list: &TopList| spans.iter().any(|span| span.minutes() == list.minutes);
        self.0.retain(|list| !is_replaced(list));
        self.0.extend(newer.0);
    }

    /// The lists as a text of at most [`TEXT_MAX`] bytes: all lists, with fewer keys if necessary.
    /// None if even one key for each is too much.
    pub fn to_text(&self) -> Option<String> {
        let mut lists = self.clone();
        let mut keys_max = KEYS_MAX;
        while keys_max > 0 {
            // Structs of text, numbers and lists never fail to serialise.
            let text = serde_json::to_string(&lists).unwrap_or_default();
            if text.len() <= TEXT_MAX {
                return Some(text);
            }
            keys_max /= 2;
            lists.0.iter_mut().for_each(|list| list.truncate(keys_max));
        }
        None
    }

    /// The lists of another replica. None if the text is not from this version.
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

impl TopList {
    fn truncate(&mut self, keys_max: usize) {
        let dropped = self.keys.iter().skip(keys_max).map(|key| key.1);
        self.floor = self.floor.max(dropped.max().unwrap_or(0));
        self.keys.truncate(keys_max);
    }
}

impl SharedKey {
    fn new(row: &KeyUsage) -> Self {
        let key = STANDARD_NO_PAD.encode(row.key.as_bytes());
        Self(key, row.units, row.error, row.requests)
    }

    /// None for bytes that are not a key.
    fn usage(&self) -> Option<KeyUsage> {
        let Self(key, units, error, requests) = self;
        let bytes = STANDARD_NO_PAD.decode(key).ok()?;
        Some(KeyUsage {
            key: EncodedKey::from_bytes(&bytes).ok()?,
            units: *units,
            error: (*error).min(*units),
            requests: *requests,
        })
    }
}

/// The sum of a replica's own keys and of those that the others shared.
pub(crate) fn merge(
    own: UsageSummary,
    others: &[TopLists],
    limit: &str,
    by: UsageKind,
    span: UsageSpan,
) -> UsageSummary {
    let wanted =
        |list: &&TopList| list.limit == limit && list.by == by && list.minutes == span.minutes();
    let lists: Vec<_> = others
        .iter()
        .filter_map(|lists| lists.0.iter().find(wanted))
        .collect();
    if lists.is_empty() {
        return own;
    }

    // Each replica has hashes of its own, so keys are hashed again.
    let hashes = RandomState::new();
    let hash = |key: &EncodedKey| hashes.hash_one(key.as_bytes());
    let shared = lists.iter().map(|list| {
        let keys = list.keys.iter().filter_map(SharedKey::usage);
        UsageSummary::new(keys, list.floor, hash)
    });
    let mut parts: Vec<_> = shared.collect();
    parts.push(UsageSummary::new(own.rows().cloned(), own.floor, hash));

    let mut merged = UsageSummary::merge(parts.iter());
    merged.sort();
    merged
}

#[cfg(test)]
mod tests {
    use super::super::KeySketch;
    use super::*;
    use tollgate::Micros;

    const NOW: Micros = Micros::from_secs(1_800_000_000);

    fn key(name: &str) -> EncodedKey {
        EncodedKey::new(name).expect("a key")
    }

    /// A replica where these keys were denied.
    fn replica(denials: &[(&str, u64)]) -> KeySketch {
        let sketch = KeySketch::default();
        for (name, units) in denials {
            sketch.record(UsageKind::Denied, &key(name), *units, NOW);
        }
        sketch
    }

    fn shared(sketch: &KeySketch) -> TopLists {
        let mut lists = TopLists::default();
        for span in UsageSpan::ALL {
            let top = sketch.top(UsageKind::Denied, span, NOW);
            lists.push("api", UsageKind::Denied, span, &top);
        }
        let text = lists.to_text().expect("a short text");
        TopLists::from_text(&text).expect("the same version")
    }

    #[test]
    fn keys_of_several_replicas_are_added_up() {
        let own = replica(&[("ann", 5), ("bob", 1)]);
        let others = [
            shared(&replica(&[("bob", 7)])),
            shared(&replica(&[("ann", 1)])),
        ];
        let own = own.top(UsageKind::Denied, UsageSpan::Minute, NOW);
        let merged = merge(own, &others, "api", UsageKind::Denied, UsageSpan::Minute);
        let rows: Vec<_> = merged
            .rows()
            .map(|row| (row.key.clone(), row.units, row.error))
            .collect();
        assert_eq!(rows, [(key("bob"), 8, 0), (key("ann"), 6, 0)]);
    }

    #[test]
    fn a_key_that_another_replica_did_not_list_may_have_been_used_there() {
        let names: Vec<String> = (0..100).map(|number| format!("key-{number}")).collect();
        let many: Vec<_> = names.iter().map(|name| (&**name, 3)).collect();
        let own = replica(&[("ann", 50)]);
        let others = [shared(&replica(&many))];
        let own = own.top(UsageKind::Denied, UsageSpan::Hour, NOW);
        let merged = merge(own, &others, "api", UsageKind::Denied, UsageSpan::Hour);
        let first = merged.rows().next().expect("a key");
        assert_eq!(
            (first.key.clone(), first.units, first.error),
            (key("ann"), 53, 3)
        );
    }

    #[test]
    fn the_text_is_bounded_and_strange_texts_are_ignored() {
        let long = "x".repeat(900);
        let names: Vec<String> = (0..200).map(|number| format!("{number}-{long}")).collect();
        let many: Vec<_> = names.iter().map(|name| (&**name, 3)).collect();
        let text = shared(&replica(&many)).to_text().expect("a text");
        assert!(text.len() <= TEXT_MAX, "{}", text.len());

        assert_eq!(TopLists::from_text("{}"), None);
        let odd = r#"[{"limit":"api","by":"denied","minutes":1,"floor":0,"keys":[["?",1,2,3]]}]"#;
        let odd = [TopLists::from_text(odd).expect("a list")];
        let own = replica(&[]).top(UsageKind::Denied, UsageSpan::Minute, NOW);
        let merged = merge(own, &odd, "api", UsageKind::Denied, UsageSpan::Minute);
        assert_eq!(merged.rows().count(), 0);
    }
}
