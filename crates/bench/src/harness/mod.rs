//! The harness of all benchmarks: it measures subjects in turn, round by round, and shows the
//! result as tables, as JSON and as a picture.
//!
//! - `rounds`: a `Bench` measures `Entrant`s in turn, returns a `Row` for each and publishes
//!   the result.
//! - `row`, `ratio`: the statistics of a subject's rounds, and those of one subject relative to
//!   another, perhaps with a goal.
//! - `report`, `text`, `panels`: the result, its tables and its picture.
//! - `timing`, `others`: time, percentiles, and the share of the machine that other programs took.
//! - `callers`: tasks that make one decision after the other.
//! - `process`, `server`, `h2load`, `redis_benchmark`: servers under test, store servers and the
//!   load generators.
//!
//! A benchmark consists of its subjects, cases, goals and tables. Everything else is here.

mod callers;
mod h2load;
mod others;
mod panels;
mod process;
mod ratio;
mod redis_benchmark;
mod report;
mod rounds;
mod row;
mod server;
mod text;
mod timing;

/// What every benchmark needs: the harness, and what its parts are given and return.
pub(crate) mod prelude {
    pub(crate) use std::path::{Path, PathBuf};
    pub(crate) use std::process::Command;
    pub(crate) use std::time::Duration;

    pub(crate) use anyhow::{Context as _, Result, bail, ensure};
    pub(crate) use testkit::servers::{Flavor, Server};

    #[cfg(test)]
    pub(crate) use super::report::tests::test_report;
    pub(crate) use super::{
        callers::*, h2load::*, others::*, panels::*, process::*, ratio::*, redis_benchmark::*,
        report::*, rounds::*, row::*, server::*, text::*, timing::*,
    };
}
