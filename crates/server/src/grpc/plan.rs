//! What a request's descriptors come to: the checks that are made for all of them together, and
//! which are whose.

use smallvec::SmallVec;
use tollgate::store::DEMANDS_MAX;
use tollgate_envoy::{RateLimitDescriptor, RateLimitRequest};
use tollgate_rules::MissingKeyPolicy;

use super::descriptor::Described;
use super::error::Fault;
use super::overrides::{self, Override};
use crate::gate::{ActiveConfig, GateDemand, GateDemands};

/// Everything there is to do about a request.
#[derive(Debug, Default)]
pub(super) struct Plan<'r> {
    /// The checks, no two on the same counter.
    pub(super) checks: GateDemands<'r>,
    /// What is given back, no two on the same counter. Each is among the checks too, at no cost, to
    /// be told about.
    pub(super) returns: GateDemands<'r>,
    /// One for each descriptor.
    pub(super) parts: SmallVec<[Part; 2]>,
    /// The checks that ask whether anything is left, as bits.
    looks: u32,
}

/// What one descriptor chose.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Places among the checks.
    pub(super) checks: SmallVec<[u8; 8]>,
    /// The descriptor brings a limit of nothing.
    pub(super) closed: Option<Override>,
}

/// What a descriptor wants with the limits it chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// To be charged, so much if it says so.
    Take(Option<u64>),
    /// To be told whether anything is left.
    Look,
    /// To have given back, so much if it says so.
    Return(Option<u64>),
}

impl Wish {
    /// A descriptor's own cost may be zero. The request's is zero when nobody set it.
    fn of(request: &RateLimitRequest, descriptor: &RateLimitDescriptor) -> Self {
        let for_all = || {
            Some(request.hits_addend)
                .filter(|cost| *cost > 0)
                .map(u64::from)
        };
        match (descriptor.hits_addend, descriptor.is_negative_hits) {
            (Some(0), false) => Self::Look,
            (own, false) => Self::Take(own.or_else(for_all)),
            (own, true) => Self::Return(own.or_else(for_all)),
        }
    }

    const fn cost(self) -> Option<u64> {
        match self {
            Self::Take(cost) | Self::Return(cost) => cost,
            Self::Look => Some(0),
        }
    }
}

impl<'r> Plan<'r> {
    pub(super) fn of(running: &'r ActiveConfig, request: &RateLimitRequest) -> Result<Self, Fault> {
        let mut plan = Self::default();
        for descriptor in &request.descriptors {
            let described = Described::new(&request.domain, descriptor);
            let wish = Wish::of(request, descriptor);
            let mut part = Part::default();
            match &descriptor.limit {
                None => {
                    let chosen = running.selector.select(
                        &described,
                        wish.cost(),
                        MissingKeyPolicy::PassOver,
                    )?;
                    for chosen in chosen {
                        part.checks.push(plan.add(chosen.into(), wish)?);
                    }
                }
                Some(limit) => {
                    let limit = Override::read(limit)?;
                    match overrides::spend(running, &described, limit, wish.cost())? {
                        Some(spend) => part.checks.push(plan.add(spend, wish)?),
                        None => part.closed = Some(limit),
                    }
                }
            }
            plan.parts.push(part);
        }
        Ok(plan)
    }

    /// True when a descriptor brings a limit of nothing, so that the request is refused whatever
    /// the others say.
    pub(super) fn is_closed(&self) -> bool {
        self.parts.iter().any(|part| part.closed.is_some())
    }

    /// True when nothing is charged.
    pub(super) fn is_free(&self) -> bool {
        self.checks.iter().all(|check| check.cost == 0)
    }

    /// The checks with a cost of one where it is asked whether anything is left; none when that is
    /// nowhere asked. A check that others charge asks more than that already.
    pub(super) fn with_looks(&self) -> Option<GateDemands<'r>> {
        if self.looks == 0 {
            return None;
        }
        let mut checks = self.checks.clone();
        for (place, check) in checks.iter_mut().enumerate() {
            if self.looks >> place & 1 == 1 {
                check.cost = check.cost.max(1);
            }
        }
        Some(checks)
    }

    /// Adds a check, to one on the same counter if there is one, and tells its place.
    fn add(&mut self, mut spend: GateDemand<'r>, wish: Wish) -> Result<u8, Fault> {
        match wish {
            Wish::Take(_) => {}
            // What the rule says it costs is not asked for.
            Wish::Look => spend.cost = 0,
            Wish::Return(_) => {
                let told = GateDemand {
                    cost: 0,
                    ..spend.clone()
                };
                merge(&mut self.returns, std::mem::replace(&mut spend, told));
            }
        }
        let place = merge(&mut self.checks, spend);
        if place >= DEMANDS_MAX {
            return Err(Fault::wrong(format!(
                "the descriptors meet more than {DEMANDS_MAX} limits; send fewer, or have the limits match less"
            )));
        }
        self.looks |= u32::from(wish == Wish::Look) << place;
        // A place is below 16.
        Ok(u8::try_from(place).unwrap_or(u8::MAX))
    }
}

/// Adds to the check on the same counter, if there is one, and tells its place. Of two sets of
/// numbers, the stricter counts.
fn merge<'r>(spends: &mut GateDemands<'r>, spend: GateDemand<'r>) -> usize {
    let same = |other: &GateDemand<'r>| other.index == spend.index && other.key == spend.key;
    let Some(place) = spends.iter().position(same) else {
        spends.push(spend);
        return spends.len() - 1;
    };
    let there = &mut spends[place];
    there.cost = there.cost.saturating_add(spend.cost);
    if let (Some(one), Some(other)) = (there.quota, spend.quota) {
        there.quota = Some(if other.limit() < one.limit() {
            other
        } else {
            one
        });
    }
    place
}
