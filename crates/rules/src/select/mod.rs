//! Which limits a request meets, with which keys, numbers and costs.
//!
//! attributes -> for each rule: do its conditions hold, is its key there, what does it cost ->
//! [`SelectedLimit`].

mod meeting;
mod seen;

use std::borrow::Cow;
use std::net::IpAddr;

use smallvec::SmallVec;
use tollgate::{EncodedKey, KeyError, LimitName, Quota};
use tollgate_subject::{AddressError, ClientResolver};

use crate::attribute::Attribute;
use crate::config::{Config, HashConfig};
use crate::rule::{Condition, LimitConfig, Pattern};

pub use meeting::{DisplayPart, Explanation};
use seen::RequestView;

/// What is known of a request.
pub trait Attributes {
    /// The value of an attribute, if the request has it. Spelling is not its concern: paths,
    /// methods, hosts and addresses are put into one spelling by whoever asks.
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>>;
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'v> {
    /// As it was written.
    Text(Cow<'v, str>),
    /// An address that is known to be one.
    Address(IpAddr),
}

/// The rules of a configuration, ready to be met.
#[derive(Debug)]
pub struct Selector {
    rules: Vec<(LimitName, LimitConfig)>,
    clients: ClientResolver,
    hashing: Option<HashConfig>,
}

/// A limit that a request must pass.
#[derive(Clone, Debug)]
pub struct SelectedLimit<'r> {
    /// Its place among the limits of the configuration.
    pub index: usize,
    /// Its rule.
    pub rule: &'r LimitConfig,
    /// Who is counted.
    pub key: EncodedKey,
    /// What the request costs.
    pub cost: u64,
    /// Other numbers than the limit's own.
    pub quota: Option<&'r Quota>,
}

/// The limits that a request must pass.
pub type Selection<'r> = SmallVec<[SelectedLimit<'r>; 4]>;

/// What to do about a limit whose key the request does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingKeyPolicy {
    /// It is an error, unless the limit says that it is optional.
    Refuse,
    /// The limit does not apply: the attributes are known to be only a part of what there is.
    PassOver,
}

impl Selector {
    /// The rules of a configuration.
    pub fn new(config: &Config) -> Self {
        let named = |rule: &LimitConfig| {
            rule.limit
                .rule()
                .ok()
                .map(|checked| (checked.name(), rule.clone()))
        };
        Self {
            rules: config.limits.iter().filter_map(named).collect(),
            clients: config.clients.clone(),
            hashing: config.hashing.clone(),
        }
    }

    /// The limits, in the order of the file.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &LimitConfig> {
        self.rules.iter().map(|(_, rule)| rule)
    }

    /// How the client's address is found and grouped.
    pub const fn clients(&self) -> &ClientResolver {
        &self.clients
    }

    /// Every limit whose conditions hold. `cost` is what the request says it costs, if it says so.
    pub fn select(
        &self,
        attributes: &impl Attributes,
        cost: Option<u64>,
        on_missing: MissingKeyPolicy,
    ) -> Result<Selection<'_>, SelectError> {
        let mut selection = Selection::new();
        self.each(attributes, cost, on_missing, |_, chosen| {
            selection.extend(chosen)
        })?;
        Ok(selection)
    }

    /// The same one by one, for callers that keep their own list or count: the place of every limit
    /// whose conditions hold, and the check to make, or none where the key is not there and that is
    /// no error.
    pub fn each<'r>(
        &'r self,
        attributes: &impl Attributes,
        cost: Option<u64>,
        on_missing: MissingKeyPolicy,
        mut then: impl FnMut(usize, Option<SelectedLimit<'r>>),
    ) -> Result<(), SelectError> {
        let seen = RequestView::new(attributes);
        for index in 0..self.rules.len() {
            let rule = &self.rules[index].1;
            if rule
                .applies
                .conditions
                .iter()
                .all(|condition| seen.fits(condition))
            {
                then(index, self.choose(index, &seen, cost, on_missing)?);
            }
        }
        Ok(())
    }

    /// The limits with these names, whatever their conditions say.
    pub fn select_named(
        &self,
        names: &[impl AsRef<str>],
        attributes: &impl Attributes,
        cost: Option<u64>,
    ) -> Result<Selection<'_>, SelectError> {
        let seen = RequestView::new(attributes);
        let mut selection = Selection::new();
        for name in names {
            let index = self.index_of(name.as_ref())?;
            selection.extend(self.choose(index, &seen, cost, MissingKeyPolicy::Refuse)?);
        }
        Ok(selection)
    }

    /// How a request meets each limit, and why not the others.
    pub fn explain<'r>(
        &'r self,
        attributes: &impl Attributes,
    ) -> Vec<(&'r LimitConfig, Explanation<'r>)> {
        let seen = RequestView::new(attributes);
        (0..self.rules.len())
            .map(|index| (&self.rules[index].1, self.meeting(index, &seen)))
            .collect()
    }

    /// How a request meets the limit of this name, whatever its conditions say.
    pub fn explain_named<'r>(
        &'r self,
        name: &str,
        attributes: &impl Attributes,
    ) -> Result<(&'r LimitConfig, Explanation<'r>), SelectError> {
        let index = self.index_of(name)?;
        Ok((
            &self.rules[index].1,
            self.met(index, &RequestView::new(attributes)),
        ))
    }

    fn meeting<'r>(
        &'r self,
        index: usize,
        seen: &RequestView<'_, impl Attributes>,
    ) -> Explanation<'r> {
        let rule = &self.rules[index].1;
        if let Some(condition) = rule
            .applies
            .conditions
            .iter()
            .find(|condition| !seen.fits(condition))
        {
            return Explanation::no(condition, seen);
        }
        self.met(index, seen)
    }

    /// How a request meets a limit whose conditions hold, or do not matter.
    fn met<'r>(&'r self, index: usize, seen: &RequestView<'_, impl Attributes>) -> Explanation<'r> {
        let rule = &self.rules[index].1;
        match self.choose(index, seen, None, MissingKeyPolicy::Refuse) {
            Err(error) => Explanation::Wrong(error),
            Ok(None) => Explanation::PassedOver,
            Ok(Some(chosen)) => Explanation::Met {
                parts: self.shown(rule, seen),
                tier: rule
                    .tiers
                    .as_ref()
                    .map(|tiers| seen.tier(tiers).0.to_owned()),
                chosen,
            },
        }
    }

    #[inline]
    fn choose<'r>(
        &'r self,
        index: usize,
        seen: &RequestView<'_, impl Attributes>,
        cost: Option<u64>,
        on_missing: MissingKeyPolicy,
    ) -> Result<Option<SelectedLimit<'r>>, SelectError> {
        let (name, rule) = &self.rules[index];
        let key = match self.key(rule, seen) {
            Ok(key) => key,
            Err(KeyFailure::Missing(_))
                if rule.optional || on_missing == MissingKeyPolicy::PassOver =>
            {
                return Ok(None);
            }
            Err(unkeyed) => return Err(unkeyed.into_error(name)),
        };
        let cost = match &rule.cost {
            None => cost.unwrap_or(1),
            Some(by) => seen.cost(by, cost).map_err(|found| SelectError::Cost {
                limit: name.to_string(),
                attribute: by.by.as_ref().map_or_else(String::new, ToString::to_string),
                found,
            })?,
        };
        let quota = rule.tiers.as_ref().and_then(|tiers| seen.tier(tiers).1);
        Ok(Some(SelectedLimit {
            index,
            rule,
            key,
            cost,
            quota,
        }))
    }

    fn index_of(&self, name: &str) -> Result<usize, SelectError> {
        let found = self.rules.iter().position(|(limit, _)| **limit == *name);
        found.ok_or_else(|| SelectError::UnknownLimit {
            found: name.chars().take(80).collect(),
            known: self.names(),
        })
    }

    fn names(&self) -> String {
        const SHOWN: usize = 8;
        let names: Vec<&str> = self
            .rules
            .iter()
            .take(SHOWN)
            .map(|(name, _)| &**name)
            .collect();
        let more = self.rules.len().saturating_sub(SHOWN);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        names.join(", ") + &more
    }
}

/// Why a rule has no key for a request.
enum KeyFailure {
    Missing(String),
    Address(AddressError),
    Unusable(KeyError),
}

impl KeyFailure {
    fn into_error(self, limit: &str) -> SelectError {
        let limit = limit.to_owned();
        match self {
            Self::Missing(attribute) => SelectError::MissingAttribute { limit, attribute },
            Self::Address(cause) => SelectError::Address { limit, cause },
            Self::Unusable(cause) => SelectError::Key { limit, cause },
        }
    }
}

/// Why a request cannot be put to the limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// No limit has this name.
    #[error("there is no limit named {found:?}; there are: {known}")]
    UnknownLimit {
        /// The name asked for.
        found: String,
        /// The names there are.
        known: String,
    },
    /// The key of a limit needs something that the request does not say.
    #[error(
        "the limit {limit:?} counts by the attribute `{attribute}`, which the request does not have; send it, or make the limit optional"
    )]
    MissingAttribute {
        /// The limit.
        limit: String,
        /// The attribute, with its alternatives.
        attribute: String,
    },
    /// `client_ip` is no address.
    #[error(
        "the attribute `client_ip`, by which the limit {limit:?} counts, is no address: {cause}"
    )]
    Address {
        /// The limit.
        limit: String,
        /// What is wrong with it.
        cause: AddressError,
    },
    /// The key cannot name a counter.
    #[error("the key for the limit {limit:?} is not usable: {cause}")]
    Key {
        /// The limit.
        limit: String,
        /// What is wrong with it.
        cause: KeyError,
    },
    /// The cost is no number.
    #[error(
        "the attribute `{attribute}`, the cost in the limit {limit:?}, is {found:?}; it must be a whole number"
    )]
    Cost {
        /// The limit.
        limit: String,
        /// The attribute.
        attribute: String,
        /// Its value.
        found: String,
    },
}

impl Condition {
    /// True when one of its patterns fits a value.
    fn fits(&self, value: &str) -> bool {
        self.any_of.iter().any(|pattern| match pattern {
            Pattern::Exact(text) => **text == *value,
            Pattern::Glob(glob) => glob.matches(value),
        })
    }
}
