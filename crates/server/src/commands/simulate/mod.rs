//! `tollgate simulate`: what a configuration would have refused of the requests in an access log.
//! The work is done by `tollgate-simulate`; this reads the arguments, opens the files and prints
//! what came of it.

#[cfg(test)]
mod equal;
mod progress;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tollgate_rules::Config;
use tollgate_simulate::{Format, Input, Labels, Plan, Report, Simulation, Trials};

use self::progress::Bar;
use super::terminal::Paint;
use super::{Exit, Failure, Printed, configuration, end, numbers};

/// Which log, by which configuration.
#[derive(Clone, Debug, clap::Args)]
pub struct SimulateArgs {
    /// The logs, - for standard input; several are one log, in the order given
    #[arg(required = true, value_name = "ACCESS_LOG")]
    logs: Vec<PathBuf>,
    /// The configuration; without one, the limit that is built in
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Another configuration: what does one refuse that the other does not?
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Measure real use, and say what limits of a few sizes would have refused; reads the log a
    /// second time
    #[arg(long)]
    suggest: bool,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How lines are laid out
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    format: LogLayout,
    /// Where JSON holds an attribute, as in `time=ts` or `client_ip=request.remote_ip`; may be
    /// given several times
    #[arg(long = "field", value_name = "NAME=FIELD", value_parser = field)]
    fields: Vec<(String, String)>,
    /// How many keys to show for each limit
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(0..=1000))]
    top: u16,
    /// Print one object for programs
    #[arg(long)]
    json: bool,
}

/// How lines are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogLayout {
    /// Each line as it looks
    Auto,
    /// As Apache and nginx write by default
    Common,
    /// With referer and user agent
    Combined,
    /// One object a line, as Caddy and Traefik write
    Json,
}

impl From<LogLayout> for Format {
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
    let (name, field) = pair.ok_or("write NAME=FIELD, as in time=ts")?;
    Ok((name.to_owned(), field.to_owned()))
}

pub(crate) fn run(args: &SimulateArgs) -> ExitCode {
    end(simulate(args), args.json)
}

fn simulate(args: &SimulateArgs) -> Printed {
    let has_stdin = args.logs.iter().any(|log| configuration::is_stdin(log));
    let config = match &args.config {
        None => Config::built_in(),
        Some(file) if has_stdin && configuration::is_stdin(file) => {
            return Err(Failure::wrong(
                "standard input cannot be both the configuration and the log",
            ));
        }
        Some(file) => read(file)?,
    };
    let against = args.against.as_deref().map(read).transpose()?;
    let plan = Plan {
        config: &config,
        against: against.as_ref(),
        format: args.format.into(),
        fields: &args.fields,
        suggest: args.suggest,
    };
    let mut simulation =
        Simulation::new(&plan).map_err(|error| Failure::wrong(format!("--field: {error}")))?;
    replay(&args.logs, "replaying", |input, tell| {
        simulation.replay(input, tell)
    })?;
    let trials = if has_stdin || simulation.is_unread() {
        None
    } else {
        tried(&simulation, &args.logs)?
    };
    let report = simulation.report(&labels(args), trials.as_ref());
    if simulation.is_unread() {
        return Err(Failure::wrong(table::unread(&report)));
    }
    shown(args, &report)
}

fn shown(args: &SimulateArgs, report: &Report) -> Printed {
    if let Some(file) = &args.html {
        let written = std::fs::write(file, report.html());
        written
            .map_err(|error| Failure::wrong(format!("cannot write {}: {error}", file.display())))?;
    }
    let text = if args.json {
        // A struct of texts, numbers and lists never fails to serialise.
        serde_json::to_string(report).unwrap_or_default() + "\n"
    } else {
        table::table(report, Paint::for_stdout())
    };
    Ok((text, Exit::Done))
}

fn read(file: &Path) -> Result<Config, Failure> {
    configuration::read(file)
        .map_err(|wrong| Failure::wrong(format!("the configuration is wrong:\n{wrong}")))
}

fn labels(args: &SimulateArgs) -> Labels {
    let named = |file: &Option<PathBuf>, none: &str| {
        file.as_deref()
            .map_or_else(|| none.to_owned(), configuration::name)
    };
    Labels {
        config: named(&args.config, "the built-in limit"),
        against: named(&args.against, ""),
        logs: args
            .logs
            .iter()
            .map(|log| configuration::name(log))
            .collect(),
        top: usize::from(args.top),
        words: numbers::quota,
    }
}

/// The second time through the log, if it was asked for.
fn tried(simulation: &Simulation, logs: &[PathBuf]) -> Result<Option<Trials>, Failure> {
    let Some(mut trials) = simulation.trials() else {
        return Ok(None);
    };
    replay(logs, "trying limits", |input, tell| {
        trials.replay(input, tell)
    })?;
    Ok(Some(trials))
}

/// Puts every log through, one after the other, and shows how far it is.
fn replay(
    logs: &[PathBuf],
    what: &'static str,
    mut each: impl FnMut(&mut Input, &mut dyn FnMut(tollgate_simulate::Progress)) -> std::io::Result<()>,
) -> Result<(), Failure> {
    for log in logs {
        let name = configuration::name(log);
        let failed = |error: std::io::Error| Failure::wrong(format!("cannot read {name}: {error}"));
        let opened = if configuration::is_stdin(log) {
            Input::stdin()
        } else {
            Input::open(log)
        };
        let mut input = opened.map_err(failed)?;
        let mut bar = Bar::for_stderr(what, input.bytes_size());
        each(&mut input, &mut |progress| bar.show(progress)).map_err(failed)?;
        bar.clear();
    }
    Ok(())
}
