//! `tollgate explain`: which limits apply to a request, with which key and quota, and why the
//! others do not. Works from the configuration alone: nothing is counted and no service is
//! contacted.

mod output;
mod table;
mod unused;

use std::path::PathBuf;
use std::process::ExitCode;

use tollgate_rules::{Config, Selector};

use self::output::{ExplainOutput, LimitExplanation};
use super::attributes::{AttributeArgs, RequestAttributes};
use super::terminal::Paint;
use super::{CommandError, CommandResult, Exit, configuration, finish};

/// Arguments of `tollgate explain`.
#[derive(Clone, Debug, clap::Args)]
pub struct ExplainArgs {
    /// Configuration file, - for standard input [default: the built-in configuration]
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    request: AttributeArgs,
    /// Explain only this limit; may be repeated
    #[arg(long = "limit", short, value_name = "NAME")]
    limits: Vec<String>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ExplainArgs) -> ExitCode {
    finish(run_explain(args), args.json)
}

fn run_explain(args: &ExplainArgs) -> CommandResult {
    let attributes = args.request.read()?;
    let config = match &args.config {
        None => Config::built_in(),
        Some(file) => configuration::read(file)
            .map_err(|error| CommandError::invalid(format!("invalid configuration:\n{error}")))?,
    };

    let output = explain(&config, &attributes, &args.limits)?;
    let text = if args.json {
        // A struct of texts, numbers and lists never fails to serialise.
        serde_json::to_string(&output).unwrap_or_default() + "\n"
    } else {
        table::render(&output, Paint::for_stdout())
    };
    Ok((text, Exit::Done))
}

/// Explains the limits with these names, or all limits if there are no names.
fn explain(
    config: &Config,
    attributes: &RequestAttributes,
    names: &[String],
) -> Result<ExplainOutput, CommandError> {
    let selector = Selector::new(config);
    for name in names {
        if selector.limit(name).is_err() {
            return Err(CommandError::invalid(unknown_limit(&selector, name)));
        }
    }

    let hashed = config
        .hashing
        .as_ref()
        .map_or(&[][..], |hashing| &hashing.attributes);
    let explanations = selector.explain(attributes);
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let limits = explanations
        .iter()
        .filter(|(limit, _)| is_wanted(limit.rule.name()))
        .map(|(limit, explanation)| LimitExplanation::new(limit, explanation, hashed));

    Ok(ExplainOutput {
        limits: limits.collect(),
        unused: unused::find(config, attributes),
    })
}

/// The selector's error for an unknown limit, which lists the known ones.
pub(super) fn unknown_limit(selector: &Selector, name: &str) -> String {
    let selected = selector.select_named(&[name], &RequestAttributes::default(), None);
    selected.err().map_or_else(
        || format!("unknown limit {name:?}"),
        |error| error.to_string(),
    )
}
