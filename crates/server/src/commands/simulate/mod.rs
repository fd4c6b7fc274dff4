//! `tollgate simulate`: what a configuration would have denied of the requests in an access log.
//!
//! Contains the command line options, the progress bar and the output. `tollgate-simulate` replays
//! the log.

mod progress;
#[cfg(test)]
mod service_equality;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tollgate_rules::Config;
use tollgate_simulate::{
    AccessLogFormat, LogInput, ReportLabels, Simulation, SimulationPlan, SimulationProgress,
    SimulationReport, SuggestionTrials,
};

use self::progress::ReplayProgressBar;
use super::terminal::Paint;
use super::{CommandError, CommandResult, Exit, configuration, finish, numbers};

/// Which log to replay, and through which configuration.
#[derive(Clone, Debug, clap::Args)]
pub struct SimulateArgs {
    /// Access logs, or - for standard input; several files are one log, oldest first
    #[arg(required = true, value_name = "ACCESS_LOG")]
    logs: Vec<PathBuf>,
    /// Configuration file; defaults to the built-in limit
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Second configuration file, to compare what each of the two denies
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Suggest limits from the usage in the log; reads the log twice
    #[arg(long)]
    suggest: bool,
    /// Write an HTML report with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Format of the log
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    format: LogLayout,
    /// JSON field of an attribute, such as `time=ts` or `client_ip=request.remote_ip`; repeatable
    #[arg(long = "field", value_name = "NAME=FIELD", value_parser = field)]
    fields: Vec<(String, String)>,
    /// How many keys to list for each limit
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        value_parser = clap::value_parser!(u16).range(0..=1000)
    )]
    top: u16,
    /// Print the report as a JSON object
    #[arg(long)]
    json: bool,
}

/// The values of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogLayout {
    /// Detect the format of each line
    Auto,
    /// Common log format, the default of Apache
    Common,
    /// Combined log format with referer and user agent, the default of nginx
    Combined,
    /// One JSON object per line, as written by Caddy and Traefik
    Json,
}

impl From<LogLayout> for AccessLogFormat {
    fn from(layout: LogLayout) -> Self {
        match layout {
            LogLayout::Auto => Self::Auto,
            LogLayout::Common => Self::Common,
            LogLayout::Combined => Self::Combined,
            LogLayout::Json => Self::Json,
        }
    }
}

fn field(text: &str) -> Result<(String, String), String> {
    let pair = text
        .split_once('=')
        .filter(|(name, field)| !name.is_empty() && !field.is_empty());
    let (name, field) = pair.ok_or("expected NAME=FIELD, such as time=ts")?;
    Ok((name.to_owned(), field.to_owned()))
}

pub(crate) fn run(args: &SimulateArgs) -> ExitCode {
    finish(simulate(args), args.json)
}

fn simulate(args: &SimulateArgs) -> CommandResult {
    let has_stdin = args.logs.iter().any(|log| configuration::is_stdin(log));
    let config = match &args.config {
        None => Config::built_in(),
        Some(file) if has_stdin && configuration::is_stdin(file) => {
            return Err(CommandError::invalid(
                "standard input cannot be both the configuration and the log",
            ));
        }
        Some(file) => read_config(file)?,
    };
    let against = args.against.as_deref().map(read_config).transpose()?;

    let plan = SimulationPlan {
        config: &config,
        against: against.as_ref(),
        format: args.format.into(),
        fields: &args.fields,
        suggest: args.suggest,
    };
    let mut simulation = Simulation::new(&plan)
        .map_err(|error| CommandError::invalid(format!("--field: {error}")))?;
    replay(&args.logs, "replaying", |input, on_progress| {
        simulation.replay(input, on_progress)
    })?;

    // Standard input cannot be read a second time.
    let trials = if has_stdin || simulation.is_unread() {
        None
    } else {
        try_suggestions(&simulation, &args.logs)?
    };

    let report = simulation.report(&labels(args), trials.as_ref());
    if simulation.is_unread() {
        return Err(CommandError::invalid(table::unreadable(&report)));
    }
    print(args, &report)
}

/// Writes the HTML report, if requested, and returns the text to print.
fn print(args: &SimulateArgs, report: &SimulationReport) -> CommandResult {
    if let Some(file) = &args.html {
        let written = std::fs::write(file, report.html());
        written.map_err(|error| {
            CommandError::invalid(format!("cannot write {}: {error}", file.display()))
        })?;
    }

    let text = if args.json {
        // Serialization of strings, numbers and lists cannot fail.
        serde_json::to_string(report).unwrap_or_default() + "\n"
    } else {
        table::table(report, Paint::for_stdout())
    };
    Ok((text, Exit::Done))
}

fn read_config(file: &Path) -> Result<Config, CommandError> {
    configuration::read(file)
        .map_err(|wrong| CommandError::invalid(format!("invalid configuration:\n{wrong}")))
}

fn labels(args: &SimulateArgs) -> ReportLabels {
    let name = |file: &Option<PathBuf>, default: &str| {
        file.as_deref()
            .map_or_else(|| default.to_owned(), configuration::name)
    };

    ReportLabels {
        config: name(&args.config, "the built-in limit"),
        against: name(&args.against, ""),
        logs: args
            .logs
            .iter()
            .map(|log| configuration::name(log))
            .collect(),
        top: usize::from(args.top),
        format_quota: numbers::quota,
    }
}

/// Reads the log a second time to try the suggested limits, if suggestions were requested.
fn try_suggestions(
    simulation: &Simulation,
    logs: &[PathBuf],
) -> Result<Option<SuggestionTrials>, CommandError> {
    let Some(mut trials) = simulation.trials() else {
        return Ok(None);
    };

    replay(logs, "trying limits", |input, on_progress| {
        trials.replay(input, on_progress)
    })?;
    Ok(Some(trials))
}

/// Passes all logs to `replay_input`, one after the other, and shows the progress.
fn replay(
    logs: &[PathBuf],
    activity: &'static str,
    mut replay_input: impl FnMut(
        &mut LogInput,
        &mut dyn FnMut(SimulationProgress),
    ) -> std::io::Result<()>,
) -> Result<(), CommandError> {
    for log in logs {
        let name = configuration::name(log);
        let failed =
            |error: std::io::Error| CommandError::invalid(format!("cannot read {name}: {error}"));

        let opened = if configuration::is_stdin(log) {
            LogInput::from_stdin()
        } else {
            LogInput::open(log)
        };
        let mut input = opened.map_err(failed)?;
        let mut bar = ReplayProgressBar::for_stderr(activity, input.bytes_size());
        replay_input(&mut input, &mut |progress| bar.show(progress)).map_err(failed)?;
        bar.clear();
    }
    Ok(())
}
