//! Lockout: a key that is denied too often is locked for a time, which grows on repetition.
//!
//! Denials are counted in windows that begin with the first denial. A key is either counting
//! denials or locked, never both, so one moment and one count are enough for either.

use std::num::NonZeroU32;
use std::time::Duration;

use super::key_lock::KeyLock;
use super::outcome::{CLOCK_SLACK, Outcome, Verdict};
use crate::limit_error::{
    LOCKOUT_AFTER_MAX, LOCKOUT_FACTOR_MAX, LimitError, WINDOW_MAX, WINDOW_MIN,
};
use crate::time::Micros;

/// The longest lockout if a factor is set and no maximum: a day, or the first lockout if that is
/// longer.
pub const LOCKOUT_MAX_DEFAULT: Micros = Micros::from_secs(86_400);
/// The highest level of a key. It fits into a byte.
const LEVEL_MAX: u32 = 255;

/// After how many denials a key is locked out, and for how long.
///
/// A denial counts as one, whatever its cost. When `after` denials fall into a window of `within`
/// that begins with the first of them, the key is locked: every demand with a cost is denied and
/// charges nothing. Denials of a locked key are not counted. Each further lockout is `factor` times
/// as long as the one before, up to `max`. That is forgotten once `max` (or `within`, if it is
/// longer) has passed since the last lockout and no window of denials is open.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter, Lockout};
///
/// let lockout = Lockout::new(2, Duration::from_secs(600), Duration::from_secs(900))?
///     .with_growth(4, Duration::from_secs(86_400))?;
/// let login = Limit::sliding_log("login", 3, Duration::from_secs(60)).lockout(lockout);
/// let limiter = Limiter::in_memory([login])?;
///
/// for _ in 0..4 {
///     limiter.check("login", "ann").try_now()?;
/// }
/// let denied = limiter.check("login", "ann").try_now()?;
/// assert!(denied.is_locked_out());
/// assert_eq!(denied.retry_after(), Some(Duration::from_secs(900)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lockout {
    after: NonZeroU32,
    factor: u32,
    within: Micros,
    length: Micros,
    max: Micros,
}

/// What is known of the denials of a key. The default is that of a key that was never denied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockoutState {
    /// The end of the window of denials, or if there are none, the end of the last lockout.
    pub ends: Micros,
    /// Denials in the window; 0 if the key is or was locked out.
    pub denials: u32,
    /// How often the key was locked out.
    pub level: u32,
    /// When the state is forgotten.
    pub until: Micros,
}

/// The denials and the lockout of a key at one moment, for people who look at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockoutView {
    /// Denials in the current window.
    pub denials: u32,
    /// How long the key is still locked; zero if it is not.
    pub locked_for: Micros,
    /// How often the key was locked out, up to 255; 0 if that is forgotten.
    pub level: u32,
}

impl Lockout {
    /// Locks a key for `length` after this number of denials within `within`, always for the same
    /// time.
    pub fn new(after: u32, within: Duration, length: Duration) -> Result<Self, LimitError> {
        let valid = NonZeroU32::new(after).filter(|after| after.get() <= LOCKOUT_AFTER_MAX);
        let length = validate_length("for", length)?;
        Ok(Self {
            after: valid.ok_or(LimitError::LockoutAfter { found: after })?,
            factor: 1,
            within: validate_length("within", within)?,
            length,
            max: length,
        })
    }

    /// The same lockout, of which each repetition is `factor` times as long as the one before, up
    /// to `max`.
    pub fn with_growth(self, factor: u32, max: Duration) -> Result<Self, LimitError> {
        if !(1..=LOCKOUT_FACTOR_MAX).contains(&factor) {
            return Err(LimitError::LockoutFactor { found: factor });
        }
        let max = validate_length("max", max)?;
        if max < self.length {
            let length = self.length;
            return Err(LimitError::LockoutMax { found: max, length });
        }
        Ok(Self {
            factor,
            max,
            ..self
        })
    }

    /// The number of denials after which a key is locked out.
    pub const fn after(&self) -> u32 {
        self.after.get()
    }

    /// The window in which denials are counted.
    pub const fn within(&self) -> Micros {
        self.within
    }

    /// The length of the first lockout of a key.
    pub const fn length(&self) -> Micros {
        self.length
    }

    /// How many times as long a repeated lockout is.
    pub const fn factor(&self) -> u32 {
        self.factor
    }

    /// The longest lockout.
    pub const fn max(&self) -> Micros {
        self.max
    }

    /// How long after a lockout it is forgotten how often the key was locked out.
    pub fn quiet_time(&self) -> Micros {
        self.max.max(self.within)
    }

    /// The length of the lockout with this number, counted from 1.
    fn length_at(&self, level: u32) -> Micros {
        let mut length = self.length;
        for _ in 1..level {
            if self.factor == 1 || length == self.max {
                break;
            }
            let longer = length.get().saturating_mul(self.factor.into());
            length = Micros::new(longer).min(self.max);
        }
        length
    }

    /// The state at this moment: forgotten if that time has come, and corrected if the clock was
    /// set back or the lockout was made shorter.
    #[must_use]
    pub fn update(&self, state: LockoutState, now: Micros) -> LockoutState {
        if state.until <= now {
            return LockoutState::default();
        }

        let locked = self.length_at(state.level);
        let longest = if state.denials > 0 {
            self.within
        } else {
            locked
        };
        let kept = if state.level > 0 {
            locked.after(self.quiet_time())
        } else {
            self.within
        };
        let at_most = |moment: Micros, length: Micros| {
            let is_late = moment.since(now) > length.after(CLOCK_SLACK);
            if is_late { now.after(length) } else { moment }
        };
        LockoutState {
            ends: at_most(state.ends, longest),
            until: at_most(state.until, kept),
            ..state
        }
    }

    /// Counts a denial of a key that is not locked. The state must have been
    /// [updated](Self::update).
    #[must_use]
    pub fn count_denial(&self, state: LockoutState, now: Micros) -> LockoutState {
        let is_open = state.denials > 0 && state.ends > now;
        let denials = if is_open { state.denials + 1 } else { 1 };
        if denials < self.after() {
            let ends = if is_open {
                state.ends
            } else {
                now.after(self.within)
            };
            return LockoutState {
                ends,
                denials,
                until: state.until.max(ends),
                ..state
            };
        }

        let level = (state.level + 1).min(LEVEL_MAX);
        let ends = now.after(self.length_at(level));
        LockoutState {
            ends,
            denials: 0,
            level,
            until: ends.after(self.quiet_time()),
        }
    }
}

impl LockoutState {
    /// The state of a key that another store has locked for this time.
    pub(crate) fn locked(lockout: &Lockout, rest: Micros, now: Micros) -> Self {
        let ends = now.after(rest);
        Self {
            ends,
            denials: 0,
            level: 1,
            until: ends.after(lockout.quiet_time()),
        }
    }

    /// How long the key is still locked; `None` if it is not.
    pub fn locked_for(&self, now: Micros) -> Option<Micros> {
        (self.denials == 0 && self.ends > now).then(|| self.ends.since(now))
    }

    /// What people see of the state.
    pub fn view(&self, now: Micros) -> LockoutView {
        LockoutView {
            denials: if self.ends > now { self.denials } else { 0 },
            locked_for: self.locked_for(now).unwrap_or(Micros::ZERO),
            level: self.level,
        }
    }
}

impl Outcome {
    /// The outcome of a demand of this cost on a locked key, from the outcome without the lockout.
    /// A demand without a cost is allowed, and sees that nothing is left. A demand that can never
    /// pass still never passes.
    #[must_use]
    pub fn locked_out(self, cost: u64, lock: KeyLock) -> Self {
        let Some(rest) = lock.rest() else {
            return self;
        };

        let verdict = match self.verdict {
            verdict if cost == 0 => verdict,
            Verdict::Never => Verdict::Never,
            Verdict::Allow { .. } => Verdict::Deny { retry_after: rest },
            Verdict::Deny { retry_after } => Verdict::Deny {
                retry_after: retry_after.max(rest),
            },
        };
        let more_after = if !verdict.is_allowed() {
            Micros::ZERO
        } else if self.remaining > 0 {
            rest
        } else {
            self.more_after.max(rest)
        };
        Self {
            verdict,
            remaining: 0,
            reset_after: self.reset_after.max(rest),
            more_after,
            lock,
            ..self
        }
    }
}

/// Validates a duration of a lockout: in the range of windows, and whole microseconds.
fn validate_length(field: &'static str, found: Duration) -> Result<Micros, LimitError> {
    Micros::from_duration(found)
        .filter(|length| (WINDOW_MIN..=WINDOW_MAX).contains(length))
        .ok_or(LimitError::LockoutLength { field, found })
}

#[cfg(test)]
mod tests;
