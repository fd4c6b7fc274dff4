//! `tollgate explain`: which limits a request meets, with which key and numbers, and why not the
//! others. Nothing is counted and nobody is asked: the configuration says it all.

mod shown;
mod spelling;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use tollgate_rules::{Config, Selector};

use self::shown::{Explained, Shown};
use super::attributes::{AttributeArgs, Given};
use super::terminal::Paint;
use super::{Exit, Failure, Printed, configuration, end};

/// Which request, and by which configuration.
#[derive(Clone, Debug, clap::Args)]
pub struct ExplainArgs {
    /// The configuration, - for standard input; without one, the limit that is built in
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    request: AttributeArgs,
    /// Explain this limit alone; may be given several times
    #[arg(long = "limit", short, value_name = "NAME")]
    limits: Vec<String>,
    /// Print one object for programs
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ExplainArgs) -> ExitCode {
    end(explain(args), args.json)
}

fn explain(args: &ExplainArgs) -> Printed {
    let given = args.request.read()?;
    let config = match &args.config {
        None => Config::built_in(),
        Some(file) => configuration::read(file)
            .map_err(|wrong| Failure::wrong(format!("the configuration is wrong:\n{wrong}")))?,
    };
    let explained = explained(&config, &given, &args.limits)?;
    let text = if args.json {
        // A struct of texts, numbers and lists never fails to serialise.
        serde_json::to_string(&explained).unwrap_or_default() + "\n"
    } else {
        table::table(&explained, Paint::for_stdout())
    };
    Ok((text, Exit::Done))
}

/// How the request meets every limit, or those that are named.
fn explained(config: &Config, given: &Given, names: &[String]) -> Result<Explained, Failure> {
    let selector = Selector::new(config);
    // Asking by name tells which names there are.
    for name in names {
        if !selector.rules().any(|rule| rule.limit.name() == name) {
            return Err(Failure::wrong(unknown_limit(&selector, name)));
        }
    }
    let hashed = config
        .hashing
        .as_ref()
        .map_or(&[][..], |hashing| &hashing.attributes);
    let meetings = selector.explain(given);
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let limits = meetings
        .iter()
        .filter(|(rule, _)| is_wanted(rule.limit.name()));
    Ok(Explained {
        limits: limits
            .map(|(rule, meeting)| Shown::new(rule, meeting, hashed))
            .collect(),
        unused: spelling::unused(config, given),
    })
}

/// The selector's own words: they list the names there are.
pub(super) fn unknown_limit(selector: &Selector, name: &str) -> String {
    let found = selector.select_named(&[name], &Given::default(), None);
    found.err().map_or_else(
        || format!("there is no limit named {name:?}"),
        |error| error.to_string(),
    )
}
