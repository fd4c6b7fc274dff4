//! How one limit of a layer is applied: to which requests, under which key, at which cost, and what
//! the response changes.

use std::fmt;
use std::sync::Arc;

use tollgate::{EncodedKey, Error, KeyError, LeakyMode, Limiter, Quota};

use crate::by::{Missing, Subject};
use crate::head::Head;
use crate::reply::Reply;

/// A function of the request.
pub(crate) type OfHead<T> = Arc<dyn Fn(&Head<'_>) -> T + Send + Sync>;
/// A function of the response.
pub(crate) type OfReply<T> = Arc<dyn Fn(&Reply<'_>) -> T + Send + Sync>;

/// One limit of a layer.
#[derive(Clone)]
pub(crate) struct Recipe {
    pub(crate) limit: Arc<str>,
    subject: Arc<dyn Subject>,
    pub(crate) when: Option<OfHead<bool>>,
    pub(crate) cost: Cost,
    pub(crate) quota: Option<OfHead<Option<Quota>>>,
    pub(crate) refund: Option<OfReply<bool>>,
    pub(crate) settle: Settle,
    pub(crate) kind: Kind,
}

/// What a request costs.
#[derive(Clone)]
pub(crate) enum Cost {
    Fixed(u64),
    Of(OfHead<u64>),
}

/// How the real cost becomes known once the request has passed.
#[derive(Clone)]
pub(crate) enum Settle {
    /// It is what was charged.
    Never,
    /// The response tells.
    Of(OfReply<Option<u64>>),
    /// The application says so, at the latest when the response's body ends.
    ByBill,
}

/// What a pass of a limit brings with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Units, which are gone.
    Units,
    /// A turn, which must be waited for.
    Turn,
    /// A place, which must be given back.
    Place,
}

/// What one limit asks of one request.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    /// The place of the recipe in the plan.
    pub(crate) recipe: usize,
    pub(crate) key: EncodedKey,
    pub(crate) cost: u64,
    /// Seldom there, and large.
    pub(crate) quota: Option<Box<Quota>>,
}

/// Why a limit asks nothing of a request.
pub(crate) enum Without {
    Charge,
    Answer(Missing),
    Key(KeyError),
}

impl Recipe {
    pub(crate) fn new(
        limiter: &Limiter,
        limit: &str,
        subject: impl Subject,
    ) -> Result<Self, Error> {
        let kind = match limiter.rule(limit)?.quota() {
            Quota::Concurrency(_) => Kind::Place,
            Quota::LeakyBucket(bucket) if bucket.mode() == LeakyMode::Queue => Kind::Turn,
            _ => Kind::Units,
        };
        Ok(Self {
            limit: limit.into(),
            subject: Arc::new(subject),
            when: None,
            cost: Cost::Fixed(1),
            quota: None,
            refund: None,
            settle: Settle::Never,
            kind,
        })
    }

    /// True when the response may change what the request has cost.
    pub(crate) const fn looks_back(&self) -> bool {
        self.refund.is_some() || !matches!(self.settle, Settle::Never)
    }

    /// What this limit asks of a request.
    pub(crate) fn charge(&self, recipe: usize, head: &Head<'_>) -> Result<Charge, Without> {
        if self.when.as_ref().is_some_and(|applies| !applies(head)) {
            return Err(Without::Charge);
        }
        let mut missing = None;
        let key = EncodedKey::from_writer(|parts| missing = self.subject.write(head, parts).err());
        match missing {
            Some(Missing::Skip) => return Err(Without::Charge),
            Some(missing) => return Err(Without::Answer(missing)),
            None => {}
        }
        let key = key.map_err(Without::Key)?;
        let cost = match &self.cost {
            Cost::Fixed(cost) => *cost,
            Cost::Of(cost) => cost(head),
        };
        let quota = self
            .quota
            .as_ref()
            .and_then(|quota| quota(head))
            .map(Box::new);
        Ok(Charge {
            recipe,
            key,
            cost,
            quota,
        })
    }
}

/// Without the functions, which have nothing to show.
impl fmt::Debug for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recipe")
            .field("limit", &self.limit)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
