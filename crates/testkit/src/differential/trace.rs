//! A trace: counters, and what is done to them in which order. Plain data that prints as what to do
//! again.

use tollgate::{Micros, Quota};

/// A story of up to some dozens of operations on a few counters.
#[derive(Clone, Debug)]
pub struct Trace {
    /// When it begins.
    pub start: Micros,
    /// The counters, at least one.
    pub counters: Vec<Counter>,
    /// What happens.
    pub steps: Vec<Step>,
}

/// A counter by its quotas, at least one and all of one shape: the usual numbers first, then others
/// to change to.
#[derive(Clone, Debug)]
pub struct Counter {
    /// The quotas.
    pub quotas: Vec<Quota>,
}

/// Time moves, then something is done.
#[derive(Clone, Debug)]
pub struct Step {
    /// How time moves first.
    pub time: Move,
    /// What is done then.
    pub act: Act,
}

/// How time moves.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    /// It does not.
    Stay,
    /// As it should.
    Forward(Length),
    /// The clock is set back.
    Back(Length),
}

/// A length of time, some of them known only while the trace runs: that is how traces land on
/// edges.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// So many microseconds.
    Micros(u64),
    /// So many thousandths of a counter's window, and so many microseconds more.
    OfWindow {
        /// Which counter, counted round.
        counter: usize,
        /// Thousandths.
        thousandths: u64,
        /// Microseconds more.
        more: u64,
    },
    /// What the last denial said to wait, less so many microseconds.
    Retry {
        /// Microseconds less.
        less: u64,
    },
    /// What the last answer said until the budget is full, less so many microseconds.
    Reset {
        /// Microseconds less.
        less: u64,
    },
}

/// What is done.
#[derive(Clone, Debug)]
pub enum Act {
    /// A request, spent if it passes.
    Spend(Vec<Ask>),
    /// A request that only looks.
    Peek(Vec<Ask>),
    /// A request of one check, by the short way if the store has one.
    SpendOne(Ask),
    /// A look with one check, by the short way if the store has one.
    PeekOne(Ask),
    /// What the checks would have taken is given back.
    Refund(Vec<Ask>),
    /// A counter is forgotten.
    Reset(usize),
    /// A lease ends: the one taken so many requests ago, counted round.
    Release(usize),
    /// A lease's time starts again.
    Renew(usize),
}

/// One check.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Which counter, counted round. A counter asked twice in one request is asked once.
    pub counter: usize,
    /// Which of its quotas, counted round.
    pub quota: usize,
    /// How much.
    pub cost: Cost,
    /// Whether it may refuse.
    pub shadow: bool,
}

/// A cost, some of them known only while the trace runs.
#[derive(Clone, Copy, Debug)]
pub enum Cost {
    /// So many units.
    Units(u64),
    /// So many thousandths of the limit.
    OfLimit(u64),
    /// The limit and so many units more.
    LimitAnd(u64),
    /// What was left in the counter when it last answered, and so many units more.
    LeftAnd(u64),
}
