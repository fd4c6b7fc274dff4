//! The harness of all benchmarks: it measures subjects in turn, round by round, and shows the
//! result as tables, as JSON and as a picture.
//!
//! - `rounds`: a [`Bench`] measures [`Entrant`]s in turn, reports its progress on standard error
//!   and returns a [`Row`] for each.
//! - `row`, `ratio`: the statistics of a subject's rounds, and those of one subject relative to
//!   another, perhaps with a goal.
//! - `report`, `text`, `panels`, `output`: the result, its tables, its picture and its files.
//! - `timing`, `latency`, `others`: time, percentiles, and the share of the machine that other
//!   programs took.
//! - `callers`: tasks that make one decision after the other.
//! - `process`, `server`, `h2load`, `redis_benchmark`: servers under test, store servers and the
//!   load generators.
//!
//! A benchmark consists of its subjects, cases, goals and tables. Everything else is here.

pub(crate) mod callers;
pub(crate) mod h2load;
mod latency;
pub(crate) mod others;
mod output;
mod panels;
pub(crate) mod process;
mod ratio;
mod redis_benchmark;
mod report;
mod rounds;
mod row;
pub(crate) mod server;
mod text;
pub(crate) mod timing;

pub(crate) use self::callers::{Caller, ConnectedCallers, LimiterCaller, Runtime, in_process};
pub(crate) use self::h2load::{H2load, LoadRequest, ServerUnderLoad};
pub(crate) use self::latency::{P50, P99};
pub(crate) use self::output::{OutputArguments, chosen, chosen_values, is_chosen};
pub(crate) use self::panels::{Bar, Panel, Picture};
pub(crate) use self::process::{Process, tollgate_program};
pub(crate) use self::ratio::{Goal, Ratio};
pub(crate) use self::redis_benchmark::RedisBenchmark;
pub(crate) use self::report::{Report, distinct};
pub(crate) use self::rounds::{Bench, Entrant};
pub(crate) use self::row::{Figures, Row, float, per};
pub(crate) use self::server::{connect, post_json, scripts_run};
pub(crate) use self::text::{Table, counted, grouped, number, or_dash, whole, word};
pub(crate) use self::timing::{Span, calibrate, time, together};

#[cfg(test)]
pub(crate) use self::report::tests::report as test_report;
