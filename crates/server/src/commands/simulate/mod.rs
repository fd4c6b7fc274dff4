//! `tollgate simulate`: what a configuration would have denied of the requests in an access log.
//!
//! Contains the command line options, the progress bar and the output. `tollgate-simulate` replays
//! the log.

mod lines;
mod progress;
#[cfg(test)]
mod service_equality;
mod suggestions;

use std::path::PathBuf;

use tollgate_simulate::{
    AccessLogFormat, LogInput, LoggedMoment, ReportLabels, Simulation, SimulationPlan,
    SimulationProgress, SimulationReport, SuggestionRange, TrailingBytes,
};

use super::outcome::{CommandError, CommandResult, Exit, invalid, output};
use super::terminal::ProgressLine;
use super::{configuration, numbers, terminal};

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
    /// Suggest limits beyond the knee, too: those of keys that use many times what all others use
    #[arg(long, requires = "suggest")]
    beyond_knee: bool,
    /// Write an HTML report with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Format of the log
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    format: LogLayout,
    /// JSON field of an attribute, such as `time=ts` or `client_ip=request.remote_ip`; repeatable
    #[arg(long = "field", value_name = "NAME=FIELD", value_parser = field)]
    fields: Vec<(String, String)>,
    /// Which moment of a request the time of its line is, for concurrency limits; defaults to the
    /// end, and to the start for fields such as `StartUTC`
    #[arg(long, value_name = "MOMENT")]
    logged_at: Option<LogMoment>,
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
    pub(crate) json: bool,
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
    /// Default text format of Envoy
    Envoy,
    /// Application load balancer of AWS
    Alb,
}

/// The values of `--logged-at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogMoment {
    /// The start of the request, as with Apache and Envoy
    Start,
    /// The end of the request, as with nginx and Caddy
    End,
}

impl From<LogMoment> for LoggedMoment {
    fn from(moment: LogMoment) -> Self {
        match moment {
            LogMoment::Start => Self::Start,
            LogMoment::End => Self::End,
        }
    }
}

impl From<LogLayout> for AccessLogFormat {
    fn from(layout: LogLayout) -> Self {
        match layout {
            LogLayout::Auto => Self::Auto,
            LogLayout::Common => Self::Common,
            LogLayout::Combined => Self::Combined,
            LogLayout::Json => Self::Json,
            LogLayout::Envoy => Self::Envoy,
            LogLayout::Alb => Self::Alb,
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

pub(crate) fn run(args: &SimulateArgs) -> CommandResult {
    let has_stdin = args.logs.iter().any(|log| configuration::is_stdin(log));
    let config_file = args.config.as_deref();
    if has_stdin && config_file.is_some_and(configuration::is_stdin) {
        return Err(invalid(
            "standard input cannot be both the configuration and the log",
        ));
    }
    let config = configuration::read_or_built_in(config_file)?;
    let against = args
        .against
        .as_deref()
        .map(configuration::read)
        .transpose()?;

    let plan = SimulationPlan {
        config: &config,
        against: against.as_ref(),
        format: args.format.into(),
        fields: &args.fields,
        logged_at: args.logged_at.map(Into::into),
        suggest: suggestion_range(args),
    };
    let simulation = Simulation::new(&plan);
    let mut simulation = simulation.map_err(|error| invalid(format!("--field: {error}")))?;
    let warnings = replay(&args.logs, "replaying", |input, on_progress| {
        simulation.replay(input, on_progress)
    })?;
    for warning in warnings {
        terminal::print_error(&warning);
    }

    // Standard input cannot be read a second time.
    let can_reread = !has_stdin && !simulation.is_unread();
    let mut trials = simulation.trials().filter(|_| can_reread);
    if let Some(trials) = &mut trials {
        replay(&args.logs, "trying limits", |input, on_progress| {
            trials.replay(input, on_progress)
        })?;
    }

    let report = simulation.report(&labels(args), trials.as_mut());
    if simulation.is_unread() {
        return Err(invalid(lines::unreadable(&report.log)));
    }

    write_page(args, &report)?;
    output(args.json, &report, || lines::lines(&report), Exit::Done)
}

fn suggestion_range(args: &SimulateArgs) -> Option<SuggestionRange> {
    let range = if args.beyond_knee {
        SuggestionRange::BeyondKnee
    } else {
        SuggestionRange::UpToKnee
    };
    args.suggest.then_some(range)
}

/// Writes the HTML report, if one is wanted.
fn write_page(args: &SimulateArgs, report: &SimulationReport) -> Result<(), CommandError> {
    let Some(file) = &args.html else {
        return Ok(());
    };
    std::fs::write(file, report.html())
        .map_err(|error| invalid(format!("cannot write {}: {error}", file.display())))
}

fn labels(args: &SimulateArgs) -> ReportLabels {
    let name = |file: &Option<PathBuf>| file.as_deref().map(configuration::name);
    ReportLabels {
        config: name(&args.config).unwrap_or_else(|| "the built-in limit".to_owned()),
        against: name(&args.against).unwrap_or_default(),
        logs: args
            .logs
            .iter()
            .map(|log| configuration::name(log))
            .collect(),
        top: usize::from(args.top),
        format_quota: numbers::quota,
    }
}

/// Passes all logs to `replay_input`, one after the other, and shows the progress. Returns warnings
/// about the files.
fn replay(
    logs: &[PathBuf],
    activity: &'static str,
    mut replay_input: impl FnMut(
        &mut LogInput,
        &mut dyn FnMut(SimulationProgress),
    ) -> std::io::Result<()>,
) -> Result<Vec<String>, CommandError> {
    let mut warnings = Vec::new();
    for log in logs {
        let name = configuration::name(log);
        let failed = |error: std::io::Error| invalid(format!("cannot read {name}: {error}"));

        let opened = if configuration::is_stdin(log) {
            LogInput::from_stdin()
        } else {
            LogInput::open(log)
        };
        let mut input = opened.map_err(failed)?;
        let mut line = ProgressLine::new(None, false);
        let (size, mut lines_before) = (input.bytes_size(), None);
        let mut on_progress = |progress: SimulationProgress| {
            let before = *lines_before.get_or_insert(progress.lines);
            line.show(|elapsed| progress::text(activity, progress, before, size, elapsed));
        };
        replay_input(&mut input, &mut on_progress).map_err(failed)?;
        line.clear();
        warnings.extend(input.trailing_bytes().map(|bytes| ignored(&name, bytes)));
    }
    Ok(warnings)
}

/// The warning about bytes after the end of a gzip file.
fn ignored(file: &str, TrailingBytes { position, count }: TrailingBytes) -> String {
    let count = numbers::counted(count, "byte");
    format!("warning: {file}: ignored {count} after the end of the gzip data at byte {position}")
}
