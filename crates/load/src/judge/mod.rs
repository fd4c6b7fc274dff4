//! Whether limits held: what was let through, held against what they allow.
//!
//! A request was let through at some moment between its sending and its answer, and only what is
//! certain is counted ([`tollgate_audit`]). So nothing that a network or a busy machine delays can
//! make a limit look exceeded; and what is called exceeded, was.
//!
//! Who shares a counter follows from the configuration, where that is given. Without it every
//! distinct request is taken as having counters of its own: that may overlook something, and
//! accuses nobody.

mod charge;
mod follow;
mod standard;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::HashMap;
use std::rc::Rc;

use tollgate_audit::Span;

use crate::draw::Draw;
use crate::plan::Plan;
use crate::told::{LimitTold, Told};

use charge::{Charge, Charger, JudgedBy};
use follow::Followed;
pub(crate) use standard::Unjudged;
pub use standard::{Allowance, Standard};

/// The most counters that are followed: 100 MB if all of them are sliding logs that are always
/// full, and a tenth of it otherwise.
const FOLLOWED_MAX: usize = 16_384;
/// No request has more limits than 16.
const LIMITS_MAX: usize = 64;

/// Follows what is let through.
#[derive(Debug)]
pub(crate) struct Judge {
    charger: Charger,
    limits: Vec<Judged>,
    followed: HashMap<Box<[u8]>, Followed>,
    /// Admissions of counters that came when there was no room left.
    unfollowed: u64,
}

/// One limit.
#[derive(Debug)]
struct Judged {
    name: String,
    /// Requests that were let through.
    admitted: u64,
    /// Of these, by a failure policy. They are not held against the limit.
    by_policy: u64,
    /// What it allows, in words, and where that is known from.
    promise: Option<(String, JudgedBy)>,
    unjudged: Option<Unjudged>,
    is_exceeded: bool,
}

impl Judge {
    pub(crate) fn new(plan: Rc<Plan>) -> Self {
        Self {
            charger: Charger { plan },
            limits: Vec::new(),
            followed: HashMap::new(),
            unfollowed: 0,
        }
    }

    /// A request was let through, sometime in this span.
    pub(crate) fn admitted(&mut self, draw: Draw, span: Span, told: &Told<'_>) {
        let charger = self.charger.clone();
        let chosen = charger.chosen(draw);
        let nameless = LimitTold::nameless(told.is_degraded);
        let has_names = !told.limits.is_empty() || charger.plan.allowances.is_empty();
        let limits = if has_names {
            &told.limits[..]
        } else {
            std::slice::from_ref(&nameless)
        };
        for limit in limits {
            let Some(index) = self.index_of(&limit.name) else {
                continue;
            };
            let judged = &mut self.limits[index];
            judged.admitted += 1;
            if limit.is_fallback {
                judged.by_policy += 1;
                continue;
            }
            match charger.charge(index, limit, draw, chosen.as_deref()) {
                Ok(charge) => self.follow(index, limit, draw, span, charge),
                Err(unjudged) => judged.unjudged = judged.unjudged.take().or(Some(unjudged)),
            }
        }
    }

    /// Names of limits that were exceeded so far.
    pub(crate) fn exceeded(&self) -> impl Iterator<Item = &str> {
        self.limits
            .iter()
            .filter(|judged| judged.is_exceeded)
            .map(|judged| judged.name.as_str())
    }

    fn index_of(&mut self, name: &str) -> Option<usize> {
        let known = self.limits.iter().position(|judged| judged.name == name);
        if known.is_some() || self.limits.len() == LIMITS_MAX {
            return known;
        }
        let name = name.to_owned();
        let (promise, unjudged) = (None, None);
        self.limits.push(Judged {
            name,
            admitted: 0,
            by_policy: 0,
            promise,
            unjudged,
            is_exceeded: false,
        });
        Some(self.limits.len() - 1)
    }

    fn follow(
        &mut self,
        index: usize,
        told: &LimitTold<'_>,
        draw: Draw,
        span: Span,
        charge: Charge,
    ) {
        let Charge {
            counter,
            cost,
            promised,
            by,
        } = charge;
        if cost == 0 {
            return;
        }
        let judged = &mut self.limits[index];
        if judged.promise.is_none() {
            judged.promise = Some((promised.to_string(), by));
        }
        let has_room = self.followed.len() < FOLLOWED_MAX;
        let followed = match self.followed.get_mut(&counter[..]) {
            Some(followed) => followed,
            None if has_room => {
                let new = Followed::new(index, draw, told.limit, promised);
                self.followed
                    .entry(counter.into_boxed_slice())
                    .or_insert(new)
            }
            None => {
                self.unfollowed += 1;
                return;
            }
        };
        if !followed.is_told(told.limit) {
            judged.unjudged = judged.unjudged.take().or(Some(Unjudged::Changed));
            return;
        }
        judged.is_exceeded |= followed.admit(span, told.reset_after_ms, cost);
    }
}
