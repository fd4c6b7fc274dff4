//! Every way in which a limit can be invalid, and the ranges of its numbers.

use std::time::Duration;

use crate::rate::Rate;
use crate::time::Micros;

/// The maximum length of a limit's name, in bytes.
pub const NAME_MAX: usize = 47;
/// The largest limit or capacity: 2^53. Up to here a double represents every integer exactly.
pub const AMOUNT_MAX: u64 = 1 << 53;
/// The most units that may be in flight for one key. The store keeps every permit, so this bounds
/// memory too.
pub const IN_FLIGHT_MAX: u64 = 65_536;
/// The shortest window.
pub const WINDOW_MIN: Micros = Micros::from_millis(1);
/// The longest window: ten years, leap days included.
pub const WINDOW_MAX: Micros = Micros::from_secs(3_653 * 86_400);

/// The most denials after which a key can be locked out.
pub const LOCKOUT_AFTER_MAX: u32 = 1_000_000;
/// The largest factor by which a repeated lockout is longer.
pub const LOCKOUT_FACTOR_MAX: u32 = 1_000;

/// Validates a limit or a capacity.
pub(crate) fn validate_amount(field: &'static str, found: u64) -> Result<u64, LimitError> {
    if (1..=AMOUNT_MAX).contains(&found) {
        Ok(found)
    } else {
        Err(LimitError::Amount { field, found })
    }
}

/// Validates the length of a window: in range, and a whole number of microseconds.
pub(crate) fn validate_window(found: Duration) -> Result<Micros, LimitError> {
    Micros::from_duration(found)
        .filter(|length| (WINDOW_MIN..=WINDOW_MAX).contains(length))
        .ok_or(LimitError::Window { found })
}

/// Why a limit is invalid, and what would be valid.
///
/// The text consists of what was found and, after `"; "`, what is expected. Callers may show the
/// second part alone, for example where the value found is a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The name is empty.
    #[error("limit name is empty; expected 1 to {NAME_MAX} letters, digits or any of - _ . : /")]
    EmptyName,
    /// The name is longer than [`NAME_MAX`] bytes.
    #[error("limit name {found:?} has {bytes} bytes; must be at most {NAME_MAX}")]
    LongName {
        /// The first 80 characters of the name.
        found: String,
        /// The length of the name in bytes.
        bytes: usize,
    },
    /// The name contains a character that is not valid in headers, metrics and keys alike.
    #[error(
        "invalid character {found:?} in limit name {name:?}; \
         expected letters, digits or any of - _ . : /"
    )]
    NameCharacter {
        /// The name.
        name: String,
        /// The first invalid character.
        found: char,
    },
    /// Two limits have the same name.
    #[error("duplicate limit name {name:?}; names must be unique, or the counts would mix")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A limit or a capacity is out of range.
    #[error("{field} {found} is out of range; must be between 1 and {AMOUNT_MAX} (2^53)")]
    Amount {
        /// Which number: `limit` or `capacity`.
        field: &'static str,
        /// The value found.
        found: u64,
    },
    /// A window or a permit timeout is out of range.
    #[error(
        "duration {found:?} is out of range; \
         must be whole microseconds between 1ms and 3653d (ten years)"
    )]
    Window {
        /// The length found.
        found: Duration,
    },
    /// A rate is out of range.
    #[error(
        "rate {found} is out of range; \
         must be between 1 per 30d and 10000000 per 1s, with a period of whole microseconds"
    )]
    Rate {
        /// The rate found.
        found: Rate,
    },
    /// A bucket would take more than 100 years to fill.
    #[error(
        "capacity {capacity} at {rate} takes over 100 years to fill; \
         use a smaller capacity or a faster rate"
    )]
    SlowRefill {
        /// The capacity.
        capacity: u64,
        /// The rate.
        rate: Rate,
    },
    /// The share of a reservation is out of range.
    #[error("reservation_max {found} is out of range; must be greater than 0 and at most 1")]
    ReservationMax {
        /// The share found.
        found: String,
    },
    /// The number of denials of a lockout is out of range.
    #[error("lockout after {found} is out of range; must be between 1 and {LOCKOUT_AFTER_MAX}")]
    LockoutAfter {
        /// The number found.
        found: u32,
    },
    /// The factor of a lockout is out of range.
    #[error("lockout factor {found} is out of range; must be between 1 and {LOCKOUT_FACTOR_MAX}")]
    LockoutFactor {
        /// The factor found.
        found: u32,
    },
    /// A duration of a lockout is out of range.
    #[error(
        "lockout {field} {found:?} is out of range; \
         must be whole microseconds between 1ms and 3653d (ten years)"
    )]
    LockoutLength {
        /// Which duration: `within`, `for` or `max`.
        field: &'static str,
        /// The length found.
        found: Duration,
    },
    /// The longest lockout is shorter than the first.
    #[error("lockout max {found} is shorter than for {length}; must be at least as long")]
    LockoutMax {
        /// The longest lockout.
        found: Micros,
        /// The first lockout.
        length: Micros,
    },
    /// The limit denies because something is busy, not because a key asks too often.
    #[error("{found} cannot lock keys out; use a window, a log, a token bucket or a meter")]
    LockoutAlgorithm {
        /// What the limit is.
        found: &'static str,
    },
    /// The limit does not count every denial where its counters are.
    #[error(
        "a lockout cannot count every denial with consistency {found}; \
         use strict, or local for each replica by itself"
    )]
    LockoutConsistency {
        /// The consistency of the limit: `leased` or `eventual`.
        found: &'static str,
    },
    /// The limit of a concurrency limit is out of range.
    #[error("concurrency limit {found} is out of range; must be between 1 and {IN_FLIGHT_MAX}")]
    InFlight {
        /// The limit found.
        found: u64,
    },
}
