//! The lockout of a key, as its definition reads.

use tollgate::Lockout;
use tollgate::algorithm::{KeyLock, LockoutView};

use super::{SLACK, micros, to_micros};

/// The denials and lockouts of a key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LockoutModel {
    /// The window of denials that was opened last: its end, and the denials in it.
    window: Option<(i128, u32)>,
    /// The end of the last lockout, if no denial was counted since.
    locked_until: Option<i128>,
    /// How often the key was locked out.
    level: u32,
    /// When all this is forgotten.
    forgotten_at: i128,
    /// Whether the current request has locked the key out.
    is_new: bool,
}

impl LockoutModel {
    /// Corrects what a clock that was set back left behind: nothing lasts longer than it would if
    /// it began now.
    pub(super) fn update(&mut self, lockout: &Lockout, now: i128) {
        if self.forgotten_at <= now {
            return;
        }

        let within = micros(lockout.within());
        let locked = length(lockout, self.level);
        let correct = |moment: &mut i128, longest: i128| {
            if *moment - now > longest + SLACK {
                *moment = now + longest;
            }
        };
        if let Some((end, _)) = &mut self.window {
            correct(end, within);
        }
        if let Some(end) = &mut self.locked_until {
            correct(end, locked);
        }
        let kept = if self.level > 0 {
            locked + quiet(lockout)
        } else {
            within
        };
        correct(&mut self.forgotten_at, kept);
    }

    /// Notes that another request begins.
    pub(super) fn begin(&mut self) {
        self.is_new = false;
    }

    /// Whether the key is locked at this time, now or later.
    pub(super) fn is_locked(&self, at: i128) -> bool {
        self.locked_until.is_some_and(|until| until > at)
    }

    /// What an outcome says of the lockout.
    pub(super) fn key_lock(&self, now: i128) -> KeyLock {
        match self.locked_until.filter(|until| *until > now) {
            Some(until) => KeyLock::new(to_micros(until - now), self.is_new),
            None => KeyLock::NONE,
        }
    }

    /// Counts a denial of a key that is not locked.
    pub(super) fn count_denial(&mut self, lockout: &Lockout, now: i128) {
        if self.forgotten_at <= now {
            *self = Self::default();
        }

        let open = self.window.filter(|(end, _)| *end > now);
        let (end, denials) = open.unwrap_or((now + micros(lockout.within()), 0));
        self.locked_until = None;
        if denials + 1 < lockout.after() {
            self.window = Some((end, denials + 1));
            self.forgotten_at = self.forgotten_at.max(end);
        } else {
            self.window = None;
            self.level = (self.level + 1).min(255);
            let until = now + length(lockout, self.level);
            self.locked_until = Some(until);
            self.forgotten_at = until + quiet(lockout);
            self.is_new = true;
        }
    }

    /// What an inspection says of the lockout.
    pub(super) fn confirm_view(&self, view: LockoutView, now: i128) -> bool {
        let known = if self.forgotten_at > now {
            *self
        } else {
            Self::default()
        };
        let open = known.window.filter(|(end, _)| *end > now);
        let locked = known.locked_until.map_or(0, |until| (until - now).max(0));
        view.denials == open.map_or(0, |(_, denials)| denials)
            && micros(view.locked_for) == locked
            && view.level == known.level
    }
}

/// The length of the lockout with this number.
fn length(lockout: &Lockout, level: u32) -> i128 {
    let (mut length, max) = (micros(lockout.length()), micros(lockout.max()));
    for _ in 1..level {
        length = (length * i128::from(lockout.factor())).min(max);
    }
    length
}

/// How long after a lockout its number is known.
fn quiet(lockout: &Lockout) -> i128 {
    micros(lockout.max()).max(micros(lockout.within()))
}
