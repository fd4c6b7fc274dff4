//! `tollgate load`: load from many clients over many replicas, and whether the limits held.
//!
//! Contains the command line options and the output. `tollgate-load` runs and judges the load.

mod format;
mod lines;
mod plan;
mod progress;
mod values;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_load::{Allowance, Arrivals, CostRange, LoadError, LoadProgress, LoadTolerance};

use super::attributes::AttributeArgs;
use super::client::{ConnectionArgs, block_on};
use super::outcome::{CommandResult, Exit, invalid, no_response, output};
use super::terminal::{LINE_INTERVAL, ProgressLine, plain};

/// What to send, where, and how fast.
#[derive(Clone, Debug, clap::Args)]
pub struct LoadArgs {
    /// HTTP address of a replica; repeat for several replicas, which are used round robin
    #[arg(
        long = "url",
        value_name = "URL",
        default_value = "http://127.0.0.1:8080"
    )]
    urls: Vec<String>,
    /// Check this limit, whatever its conditions, instead of all limits that match; repeatable
    #[arg(long = "limit", short, value_name = "NAME")]
    limits: Vec<String>,
    #[command(flatten)]
    request: AttributeArgs,
    /// Send GET requests to any application instead of the service: 429 counts as denied, and `-a
    /// header:NAME=VALUE` sets headers
    #[arg(long, value_name = "PATH", conflicts_with_all = ["limits", "cost", "config"])]
    get: Option<String>,
    /// Requests per second
    #[arg(long, short, value_name = "N", default_value = "1000", value_parser = values::rate)]
    rate: f64,
    /// How long to send requests
    #[arg(long, short, value_name = "TIME", default_value = "10s", value_parser = values::duration)]
    duration: Duration,
    /// How long the rate takes to rise from 0 to --rate
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = values::length)]
    ramp: Duration,
    /// How requests are spread over time: evenly, or as a Poisson process (independent clients)
    #[arg(long, value_enum, default_value_t)]
    arrivals: ArrivalsArg,
    /// Distribution of `{key}` over requests: `one`, `uniform:N`, `zipf:N[:S]` or `file:PATH`
    #[arg(long, value_name = "KEYS", default_value = "one", value_parser = values::keys)]
    keys: values::KeysArg,
    /// Cost of a request, or a range such as 1-5; defaults to the cost that the limit configures
    #[arg(long, value_name = "N[-M]", value_parser = values::costs)]
    cost: Option<CostRange>,
    /// Pattern of the requests
    #[arg(long, value_enum, default_value_t)]
    shape: LoadShape,
    /// Number of source addresses, for --shape credential-stuffing
    #[arg(long, value_name = "N", default_value = "10000")]
    addresses: NonZeroU32,
    /// Length of the windows, for --shape edge-burst, such as 1m
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    window: Option<Duration>,
    /// Total number of connections
    #[arg(
        long,
        value_name = "N",
        default_value = "64",
        value_parser = clap::value_parser!(u16).range(1..=10_000)
    )]
    connections: u16,
    /// How long to wait for a response
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = super::client::timeout)]
    timeout: Duration,
    /// Judge limits by this configuration, which must be the one that the replicas use
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Judge a limit by this bound: 120/1m is 120 in any minute, 100+10/s is a burst of 100 plus 10
    /// per second; repeatable
    #[arg(long = "allow", value_name = "[NAME=]LIMIT", value_parser = values::allowance)]
    allowances: Vec<Allowance>,
    /// Fail if more than this share of requests gets no decision: timeouts, connections that fail,
    /// other responses, requests not sent in time
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = values::share)]
    errors_max: f64,
    /// Fail if failure policies make more than this share of the decisions: no limit counts those
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = values::share)]
    degraded_max: f64,
    /// Fail if more than this share of the allowed requests meets no limit: the response names none,
    /// or a proxy marked it with `X-RateLimit-Unchecked`
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = values::share)]
    unlimited_max: f64,
    /// How long to test Retry-After times after the load; 0s skips the test
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::length)]
    retry_for: Duration,
    /// Seed of the random numbers; the same seed sends the same requests
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Do not show progress
    #[arg(long, short)]
    quiet: bool,
    /// Print the report as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The values of `--arrivals`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum ArrivalsArg {
    #[default]
    Constant,
    Poisson,
}

impl From<ArrivalsArg> for Arrivals {
    fn from(arg: ArrivalsArg) -> Self {
        match arg {
            ArrivalsArg::Constant => Self::Constant,
            ArrivalsArg::Poisson => Self::Poisson,
        }
    }
}

/// The values of `--shape`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum LoadShape {
    #[default]
    Steady,
    CredentialStuffing,
    EdgeBurst,
}

pub(crate) fn run(args: &LoadArgs) -> CommandResult {
    let plan = plan::plan(args)?;
    let mut line = ProgressLine::new(Some(LINE_INTERVAL), args.quiet);
    let on_progress = |progress: &LoadProgress| {
        line.show(|_| progress::text(progress, args.duration));
    };
    let stop = async {
        // Without a signal handler, the load just runs to its end.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };

    let report = block_on(tollgate_load::run(plan, stop, on_progress))?;
    line.clear();
    let mut report = report.map_err(|error| {
        let reason = plain(&error.to_string());
        match error {
            LoadError::Rejected { .. } => invalid(reason),
            _ => no_response(reason),
        }
    })?;
    let tolerance = LoadTolerance {
        unlimited: args.unlimited_max,
        errors: args.errors_max,
        degraded: args.degraded_max,
    };
    report.judge(tolerance);
    let exit = Exit::denied_if(!report.failures.is_empty());
    let text = || lines::lines(&report, tolerance, args.get.is_some());
    output(args.json, &report, text, exit)
}
