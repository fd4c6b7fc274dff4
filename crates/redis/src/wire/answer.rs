//! What the script answers, and the outcomes that follow.

use bytes::{Buf as _, Bytes};
use smallvec::SmallVec;
use tollgate::algorithm::remote::{CounterState, PermitCounts};
use tollgate::lease::LeaseGrant;
use tollgate::store::{Intent, SpendReply};
use tollgate::{Demand, Micros, Outcome, Quota};

use super::request::{Request, Verb};

/// The answer to one request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answered {
    pub(crate) at: Micros,
    /// It passed, or was done.
    pub(crate) passed: bool,
    /// Three numbers for each check.
    seen: SmallVec<[[u64; 3]; 1]>,
    /// What a take was given.
    lent: Option<Lent>,
}

/// Units given in advance, under a name, and whether what was held before is still known.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lent {
    units: u64,
    generation: u64,
    is_kept: bool,
}

/// Reads the answers to these requests, in order; `None` when they are not there. Each is an answer
/// or the server's error.
pub(crate) fn answers<'r>(
    mut reply: Bytes,
    requests: impl Iterator<Item = &'r Request>,
) -> Option<Vec<Result<Answered, String>>> {
    let at = Micros::new(whole(reply.try_get_f64_le().ok()?)?);
    let answers: Option<Vec<_>> = requests
        .map(|request| answer(&mut reply, request, at))
        .collect();
    answers.filter(|_| reply.is_empty())
}

fn answer(reply: &mut Bytes, request: &Request, at: Micros) -> Option<Result<Answered, String>> {
    let status = reply.try_get_u8().ok()?;
    if status == 2 {
        let length = usize::from(reply.try_get_u16_le().ok()?);
        let text = (length <= reply.len()).then(|| reply.split_to(length))?;
        return Some(Err(String::from_utf8_lossy(&text).into_owned()));
    }
    let is_answered = matches!(request.verb, Verb::Spend | Verb::Peek | Verb::Lease);
    let checks = if is_answered { request.keys.len() } else { 0 };
    let mut seen: SmallVec<[[Option<u64>; 3]; 1]> = SmallVec::new();
    for _ in 0..checks {
        let doubles = [
            reply.try_get_f64_le().ok()?,
            reply.try_get_f64_le().ok()?,
            reply.try_get_f64_le().ok()?,
        ];
        seen.push(doubles.map(whole));
    }
    let lent = if request.verb == Verb::Lease {
        Some(lent(reply)?)
    } else {
        None
    };
    // Something else has written there.
    let Some(seen) = seen.into_iter().map(all).collect() else {
        return Some(Err(
            "ERR the key holds something that is not a counter".into()
        ));
    };
    Some(Ok(Answered {
        at,
        passed: status == 1,
        seen,
        lent,
    }))
}

fn lent(reply: &mut Bytes) -> Option<Lent> {
    let (units, name) = (
        whole(reply.try_get_f64_le().ok()?)?,
        reply.try_get_f64_le().ok()?,
    );
    let is_kept = name >= 0.0;
    let generation = whole(if is_kept { name } else { -1.0 - name })?;
    Some(Lent {
        units,
        generation,
        is_kept,
    })
}

fn all([first, second, third]: [Option<u64>; 3]) -> Option<[u64; 3]> {
    Some([first?, second?, third?])
}

/// A whole number that is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what does not fit has been refused"
)]
fn whole(number: f64) -> Option<u64> {
    let is_whole = (0.0..1.8e19).contains(&number) && number.fract() == 0.0;
    is_whole.then_some(number as u64)
}

/// A check that has been sent, for making its outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    quota: Quota,
    cost: u64,
    shadow: bool,
}

impl Asked {
    pub(crate) fn new(check: &Demand<'_>) -> Self {
        Self {
            quota: *check.quota,
            cost: check.cost,
            shadow: check.shadow,
        }
    }

    fn seen(&self, [first, second, third]: [u64; 3]) -> CounterState {
        match self.quota {
            Quota::TokenBucket(_) | Quota::LeakyBucket(_) => CounterState::Bucket {
                at: Micros::new(first),
                part: second,
            },
            Quota::FixedWindow(_) => CounterState::Fixed {
                count: first,
                ends: Micros::new(second),
            },
            Quota::SlidingWindow(_) => CounterState::Sliding {
                current: first,
                previous: second,
                start: Micros::new(third),
            },
            Quota::SlidingLog(_) | Quota::Concurrency(_) => CounterState::Held(PermitCounts {
                sum: first,
                until: Micros::new(second),
                frees: Micros::new(third),
            }),
        }
    }
}

impl Answered {
    /// The answer to what no script was asked about.
    pub(crate) fn done() -> Self {
        Self {
            at: Micros::ZERO,
            passed: true,
            seen: SmallVec::new(),
            lent: None,
        }
    }

    /// What a take was given, if the script and the arithmetic of the embedded store agree on
    /// whether it passes.
    pub(crate) fn given(&self, asked: &Asked) -> Option<LeaseGrant> {
        let seen = asked.seen(*self.seen.first()?);
        let outcome = asked.quota.outcome(seen, asked.cost, self.at)?;
        let Lent {
            units,
            generation,
            is_kept,
        } = self.lent.unwrap_or(Lent {
            units: 0,
            generation: 0,
            is_kept: true,
        });
        let passes = asked.shadow || outcome.verdict.is_allowed();
        (passes == self.passed).then_some(LeaseGrant {
            seen,
            at: self.at,
            units,
            generation,
            is_kept,
        })
    }

    /// What each limit says. Made by the arithmetic of the embedded store from what the script saw;
    /// `None` when the two do not agree on whether the request passes, and then something else has
    /// written to the keys.
    pub(crate) fn spent(&self, asked: &[Asked], intent: Intent) -> Option<SpendReply> {
        let outcomes = || asked.iter().zip(&self.seen);
        let of = |asked: &Asked, seen: &[u64; 3], cost| {
            asked.quota.outcome(asked.seen(*seen), cost, self.at)
        };
        let mut asking: SmallVec<[Outcome; 1]> = outcomes()
            .map(|(asked, seen)| of(asked, seen, asked.cost))
            .collect::<Option<_>>()?;
        let fits =
            |(asked, outcome): (&Asked, &Outcome)| asked.shadow || outcome.verdict.is_allowed();
        if asked.iter().zip(&asking).all(fits) != self.passed {
            return None;
        }
        if !self.passed || intent == Intent::Peek {
            // What would pass has kept its units.
            for ((asked, seen), outcome) in outcomes().zip(&mut asking) {
                if outcome.verdict.is_allowed() {
                    *outcome = Outcome {
                        verdict: outcome.verdict,
                        ..of(asked, seen, 0)?
                    };
                }
            }
        }
        Some(SpendReply::by_store(asking, self.at))
    }
}
