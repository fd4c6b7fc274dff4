//! Open-loop load on a rate limiter, and whether its limits held.
//!
//! Requests are due at times that are settled before anybody answers ([`Pace`]), from many virtual
//! clients ([`Keys`], [`Template`]). They go to the replicas in turn over a bounded number of
//! connections, and what comes back is counted, timed from the moment at which it was due, and held
//! against what the limits allow ([`Standard`]). The end of it is a [`Report`].
//!
//! Owns a client's half of HTTP/1.1 and the book-keeping. Knows what limits promise, from
//! `tollgate-audit`, and whom they count, from `tollgate-rules`; must not know command lines,
//! terminals, or how the service is made.
//!
//! Everything runs in one thread, but for one that only sleeps: there is nothing to lock, and what
//! is measured is not disturbed by the measuring.

mod clock;
mod course;
mod draw;
mod error;
mod judge;
mod keys;
mod lane;
mod plan;
mod question;
mod record;
mod report;
mod retry;
mod run;
mod schedule;
mod template;
mod timer;
mod told;
mod wire;
mod zipf;

pub use draw::{Addresses, Costs};
pub use error::LoadError;
pub use judge::{Allowance, Standard};
pub use keys::{Keys, KeysError};
pub use plan::{Asking, Plan, Replica};
pub use record::Progress;
pub use report::{
    Errors, Generator, Latency, LimitReport, ReplicaReport, Report, Requests, RetryReport,
    Timeline, Worst,
};
pub use run::run;
pub use schedule::{Arrivals, Pace};
pub use template::{Template, TemplateError};
