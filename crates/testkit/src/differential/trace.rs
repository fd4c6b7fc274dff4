//! A trace: counters, and operations on them in order. It is plain data whose debug output can be
//! copied into a regression test.

use tollgate::{Lockout, Micros, Quota, ReservationExpiry};

/// A trace of up to a few dozen operations on a few counters.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The start time.
    pub start: Micros,
    /// The counters, at least one.
    pub counters: Vec<Counter>,
    /// The operations.
    pub steps: Vec<Step>,
}

/// A counter, given by its quotas: at least one, all of the same shape. The first is the default,
/// the others are used to change it.
#[derive(Clone, Debug)]
pub struct Counter {
    /// The quotas.
    pub quotas: Vec<Quota>,
    /// The most units that it may owe.
    pub debt_max: u64,
    /// What happens to reservations that expire.
    pub on_reservation_expiry: ReservationExpiry,
    /// When the key is locked out, if ever.
    pub lockout: Option<Lockout>,
}

/// A movement of the clock, followed by an operation.
#[derive(Clone, Debug)]
pub struct Step {
    /// How the clock moves first.
    pub time: Move,
    /// The operation.
    pub act: Act,
}

/// How the clock moves.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    /// It does not move.
    Stay,
    /// It goes forward.
    Forward(Length),
    /// It is set back.
    Back(Length),
}

/// A duration. Some are known only while the trace runs, which lets traces hit edges exactly.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// A number of microseconds.
    Micros(u64),
    /// Thousandths of a counter's window, plus some microseconds.
    OfWindow {
        /// Which counter, counted round.
        counter: usize,
        /// Thousandths.
        thousandths: u64,
        /// Microseconds more.
        more: u64,
    },
    /// The window of denials of a counter's lockout, less some microseconds.
    Denials {
        /// Which counter, counted round.
        counter: usize,
        /// Microseconds less.
        less: u64,
    },
    /// The time after which a counter's lockouts are forgotten, less some microseconds.
    Quiet {
        /// Which counter, counted round.
        counter: usize,
        /// Microseconds less.
        less: u64,
    },
    /// The retry time of the last denial, less some microseconds.
    Retry {
        /// Microseconds less.
        less: u64,
    },
    /// The reset time of the last outcome, less some microseconds.
    Reset {
        /// Microseconds less.
        less: u64,
    },
}

/// An operation.
#[derive(Clone, Debug)]
pub enum Act {
    /// A request that is spent if allowed.
    Spend(Vec<Ask>),
    /// A request that only peeks.
    Peek(Vec<Ask>),
    /// A peek that also reports what the counters contain.
    Inspect(Vec<Ask>),
    /// A request with one demand, by the store's short path if it has one.
    SpendOne(Ask),
    /// A peek with one demand, by the store's short path if it has one.
    PeekOne(Ask),
    /// A request that is charged whether it fits or not.
    Count(Vec<Ask>),
    /// A request that reserves what it spends, for a time.
    Reserve(Vec<Ask>, Length),
    /// A settlement of the reservation made this many reservations ago, modulo their number, with
    /// this cost in each of its counters.
    Settle(usize, Cost),
    /// The end of the reservation made this many reservations ago, modulo their number, without a
    /// cost.
    Cancel(usize),
    /// A refund of these demands.
    Refund(Vec<Ask>),
    /// A reset of a counter.
    Reset(usize),
    /// A release of a permit: the one acquired this many requests ago, modulo their number.
    Release(usize),
    /// A renewal of a permit, selected in the same way.
    Renew(usize),
}

/// One demand.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The counter, modulo their number. A request uses each counter at most once.
    pub counter: usize,
    /// The quota, modulo their number.
    pub quota: usize,
    /// The cost.
    pub cost: Cost,
    /// Whether it is a shadow limit, which never denies.
    pub shadow: bool,
}

/// A cost. Some are known only while the trace runs.
#[derive(Clone, Copy, Debug)]
pub enum Cost {
    /// A number of units.
    Units(u64),
    /// Thousandths of the limit.
    OfLimit(u64),
    /// The limit plus some units.
    LimitAnd(u64),
    /// What remained in the counter at its last outcome, plus some units.
    LeftAnd(u64),
}
