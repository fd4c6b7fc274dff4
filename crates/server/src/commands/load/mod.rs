//! `tollgate load`: load from many clients over many replicas, and whether the limits held.
//!
//! Owns what is typed and what is shown. The load itself is made and judged by `tollgate-load`.

mod lines;
mod planned;
mod progress;
mod table;
mod words;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tollgate_load::{Allowance, Arrivals, Costs, LoadError};

use super::attributes::AttributeArgs;
use super::terminal::{Paint, plain};
use super::{Exit, Failure, Printed, end};
use progress::Line;

/// What to send, to whom, how fast.
#[derive(Clone, Debug, clap::Args)]
pub struct LoadArgs {
    /// The HTTP port of a replica; may be given several times, and they are asked in turn
    #[arg(
        long = "url",
        value_name = "URL",
        default_value = "http://127.0.0.1:8080"
    )]
    urls: Vec<String>,
    /// Ask this limit, whatever its conditions say, instead of all whose conditions hold; may be
    /// given several times
    #[arg(long = "limit", short, value_name = "NAME")]
    limits: Vec<String>,
    #[command(flatten)]
    request: AttributeArgs,
    /// Load any application instead of the service: 429 is a refusal, and `-a header:NAME=VALUE`
    /// are its headers
    #[arg(long, value_name = "PATH", conflicts_with_all = ["limits", "cost", "config"])]
    get: Option<String>,
    /// Requests a second
    #[arg(long, short, value_name = "N", default_value = "1000", value_parser = words::rate)]
    rate: f64,
    /// How long requests are sent
    #[arg(long, short, value_name = "TIME", default_value = "10s", value_parser = words::duration)]
    duration: Duration,
    /// How long it takes from nothing to the full rate
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = words::length)]
    ramp: Duration,
    /// How requests are spread: at equal distances, or as clients come who know nothing of each
    /// other
    #[arg(long, value_enum, default_value_t)]
    arrivals: ArrivalWord,
    /// Which clients ask: `one`, `uniform:N`, `zipf:N[:S]` or `file:PATH`
    #[arg(long, value_name = "KEYS", default_value = "one", value_parser = words::keys)]
    keys: words::KeysWord,
    /// What a request costs, or from what to what, as in 1-5; the limit's own cost if nothing is
    /// said
    #[arg(long, value_name = "N[-M]", value_parser = words::costs)]
    cost: Option<Costs>,
    /// What comes together
    #[arg(long, value_enum, default_value_t)]
    shape: Shape,
    /// From how many addresses accounts are tried, in the shape credential-stuffing
    #[arg(long, value_name = "N", default_value = "10000")]
    addresses: NonZeroU32,
    /// The windows of the shape edge-burst, as in 1m
    #[arg(long, value_name = "TIME", value_parser = words::duration)]
    window: Option<Duration>,
    /// Over how many connections in all
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    connections: u16,
    /// How long an answer may take
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = super::client::timeout)]
    timeout: Duration,
    /// Judge by this configuration, which must be the replicas' own
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What a limit allows: 120/1m in any minute, or 100+10/s at once and a second; may be given
    /// several times
    #[arg(long = "allow", value_name = "[NAME=]LIMIT", value_parser = words::allowance)]
    allowances: Vec<Allowance>,
    /// How long to try afterwards whether retry times are true; 0s for not at all
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = words::length)]
    retry_for: Duration,
    /// Which requests are drawn; the same number draws the same
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,
    /// Say nothing until the end
    #[arg(long, short)]
    quiet: bool,
    /// Print one object for programs
    #[arg(long)]
    json: bool,
}

/// How requests are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum ArrivalWord {
    #[default]
    Constant,
    Poisson,
}

impl From<ArrivalWord> for Arrivals {
    fn from(word: ArrivalWord) -> Self {
        match word {
            ArrivalWord::Constant => Self::Constant,
            ArrivalWord::Poisson => Self::Poisson,
        }
    }
}

/// What comes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Shape {
    #[default]
    Steady,
    CredentialStuffing,
    EdgeBurst,
}

pub(crate) fn run(args: &LoadArgs) -> ExitCode {
    end(load(args), args.json)
}

fn load(args: &LoadArgs) -> Printed {
    let plan = planned::plan(args)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Failure::no_answer(format!("cannot start: {error}")))?;
    let mut line = Line::new(args.quiet, plan.pace.duration);
    let report = runtime.block_on(async {
        let stop = async {
            // Whoever cannot be told to stop goes on to the end.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tollgate_load::run(plan, stop, |progress| line.show(progress)).await
    });
    line.clear();
    // A name that is still being looked up must not hold up the end.
    runtime.shutdown_background();
    let report = report.map_err(|error| failure(&error))?;
    let exit = if report.is_exceeded() {
        Exit::Denied
    } else {
        Exit::Done
    };
    let text = if args.json {
        // A struct of texts, numbers and lists never fails to serialise.
        serde_json::to_string(&report).unwrap_or_default() + "\n"
    } else {
        table::table(&report, Paint::for_stdout())
    };
    Ok((text, exit))
}

fn failure(error: &LoadError) -> Failure {
    let reason = plain(&error.to_string());
    match error {
        LoadError::Refused { .. } => Failure::wrong(reason),
        _ => Failure::no_answer(reason),
    }
}
