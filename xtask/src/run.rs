//! Runs the steps of a command and reports their results.
//!
//! A failed step does not stop the ones after it: one run shows everything that is broken. The
//! closing step comes after the table of results, so that its own summary is printed last.
//!
//! All output goes to standard error, like that of cargo: on two streams the order would be lost.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::error::{self, Error};

/// The steps of a command, in order.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Runs last, after the table of results.
    pub(crate) closing: Option<Step>,
}

#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Run(Command),
    /// Inspects the files below a directory; every line it returns is a problem.
    Inspect(fn(&Path) -> Vec<String>, PathBuf),
    Skip(String),
    Fail(String),
}

#[derive(Debug)]
struct Report {
    name: String,
    outcome: Outcome,
    seconds: f64,
}

#[derive(Debug)]
enum Outcome {
    Passed,
    Failed,
    Skipped(String),
}

impl Step {
    pub(crate) fn new(name: impl Into<String>, command: Command) -> Self {
        Self {
            name: name.into(),
            work: Work::Run(command),
        }
    }

    /// A step that reads files instead of running a command.
    pub(crate) fn inspect(
        name: impl Into<String>,
        root: PathBuf,
        problems: fn(&Path) -> Vec<String>,
    ) -> Self {
        Self {
            name: name.into(),
            work: Work::Inspect(problems, root),
        }
    }

    /// A step that cannot run here. It is reported as skipped, with the reason.
    pub(crate) fn skipped(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            work: Work::Skip(reason.into()),
        }
    }

    /// A required step that cannot run here. It is reported as failed.
    pub(crate) fn failed(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            work: Work::Fail(reason.into()),
        }
    }
}

/// Runs every step of the plan. The error names the steps that failed.
pub(crate) fn all(plan: Plan) -> Result<(), Error> {
    let total = plan.steps.len() + usize::from(plan.closing.is_some());
    let mut reports = Vec::with_capacity(total);
    for (index, step) in plan.steps.into_iter().enumerate() {
        let report = run_step(step, index + 1, total);
        eprintln!("{}", closing_line(&report));
        reports.push(report);
    }
    eprint!("\n{}", table(&reports));
    if let Some(step) = plan.closing {
        reports.push(run_step(step, total, total));
    }

    let failed = reports
        .into_iter()
        .filter(|report| matches!(report.outcome, Outcome::Failed));
    let names: Vec<String> = failed.map(|report| report.name).collect();
    if names.is_empty() {
        Ok(())
    } else {
        Err(Error::Steps { names })
    }
}

/// Runs one command outside a plan, without a report.
pub(crate) fn alone(mut command: Command) -> Result<(), Error> {
    let line = command_line(&command);
    let status = command.status().map_err(|source| Error::Start {
        command: line.clone(),
        source,
    })?;

    if status.success() {
        Ok(())
    } else {
        Err(Error::Command {
            command: line,
            found: status.to_string(),
        })
    }
}

/// Runs a command and returns its standard output.
pub(crate) fn output(mut command: Command) -> Result<Vec<u8>, Error> {
    let line = command_line(&command);
    let output = command.output().map_err(|source| Error::Start {
        command: line.clone(),
        source,
    })?;

    if output.status.success() {
        return Ok(output.stdout);
    }

    let complaint = String::from_utf8_lossy(&output.stderr);
    let last_words = complaint
        .lines()
        .rev()
        .find(|text| !text.trim().is_empty())
        .unwrap_or("no message");

    Err(Error::Command {
        command: line,
        found: format!("{} ({})", output.status, last_words.trim()),
    })
}

/// The command line as typed in a shell.
pub(crate) fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[expect(
    clippy::disallowed_methods,
    reason = "a stopwatch for people, not a part of any limit"
)]
fn run_step(step: Step, number: usize, total: usize) -> Report {
    eprintln!("\nstep {number}/{total} {}", step.name);

    let command = match step.work {
        Work::Skip(reason) => {
            return Report {
                name: step.name,
                outcome: Outcome::Skipped(reason),
                seconds: 0.0,
            };
        }
        Work::Fail(reason) => {
            eprintln!("error: {reason}");
            return Report {
                name: step.name,
                outcome: Outcome::Failed,
                seconds: 0.0,
            };
        }
        Work::Inspect(problems, root) => return inspect(step.name, &problems(&root)),
        Work::Run(command) => command,
    };

    eprintln!("$ {}", command_line(&command));
    let start = Instant::now();
    let outcome = match alone(command) {
        Ok(()) => Outcome::Passed,
        Err(error) => {
            eprintln!("error: {}", error::with_sources(&error));
            Outcome::Failed
        }
    };

    Report {
        name: step.name,
        outcome,
        seconds: start.elapsed().as_secs_f64(),
    }
}

fn inspect(name: String, problems: &[String]) -> Report {
    for problem in problems {
        eprintln!("error: {problem}");
    }
    let outcome = if problems.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Failed
    };
    Report {
        name,
        outcome,
        seconds: 0.0,
    }
}

fn closing_line(report: &Report) -> String {
    match &report.outcome {
        Outcome::Passed => format!("{} passed in {:.1} s", report.name, report.seconds),
        Outcome::Failed => format!("{} failed after {:.1} s", report.name, report.seconds),
        Outcome::Skipped(reason) => format!("warning: {} skipped: {reason}", report.name),
    }
}

fn table(reports: &[Report]) -> String {
    let width = reports
        .iter()
        .map(|report| report.name.len())
        .max()
        .unwrap_or(0)
        .max("total".len());
    let mut text = format!("{:width$}  result   seconds\n", "step");
    for Report {
        name,
        outcome,
        seconds,
    } in reports
    {
        let _infallible = match outcome {
            Outcome::Passed => writeln!(text, "{name:width$}  passed   {seconds:7.1}"),
            Outcome::Failed => writeln!(text, "{name:width$}  FAILED   {seconds:7.1}"),
            Outcome::Skipped(_) => writeln!(text, "{name:width$}  skipped        -"),
        };
    }
    let total: f64 = reports.iter().map(|report| report.seconds).sum();
    let _infallible = writeln!(text, "{:width$}           {total:7.1}", "total");
    for report in reports
        .iter()
        .filter(|report| matches!(report.outcome, Outcome::Skipped(_)))
    {
        let _infallible = writeln!(text, "{}", closing_line(report));
    }
    text
}

#[cfg(test)]
mod tests;
