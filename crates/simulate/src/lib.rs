//! What a configuration of Tollgate would have refused of the requests in an access log.
//!
//! [`Input`] (files, gzip, standard input) -> lines -> [`LogReader`] (common, combined, JSON) ->
//! [`Replay`] (which limits a request meets, and what they say at its time) -> counts ->
//! [`Report`].
//!
//! Owns how logs are read and what is counted about them. Which limits a request meets is
//! `tollgate-rules`' business, and what they say is `tollgate`'s: nothing of either is done here a
//! second time. Knows nothing of command lines, and asks neither a server nor the clock.

mod compare;
mod input;
mod log;
mod replay;
mod report;
mod requests;
mod side;
mod simulation;
mod suggest;
mod tally;
pub mod text;

pub use input::{Chunk, Input, LINE_MAX, Line, Lines};
pub use log::{BadLine, FieldError, Fields, Format, LogReader, Record, Unread, mended};
pub use replay::{Answered, Replay, Undecided};
pub use report::*;
pub use requests::Request;
pub use simulation::{Plan, Progress, Simulation};
pub use suggest::Trials;
