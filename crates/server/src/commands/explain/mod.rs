//! `tollgate explain`: which limits apply to a request, with which key and quota, and why the
//! others do not. Works from the configuration alone: nothing is counted and no service is
//! contacted.

mod result;

use std::path::PathBuf;

use tollgate_rules::{Attribute, AttributeKind, Config, LimitConfig, Selector};

use self::result::{ExplainOutput, LimitExplanation, UnusedAttribute};
use super::attributes::{AttributeArgs, RequestAttributes};
use super::configuration;
use super::outcome::{CommandError, CommandResult, Exit, output};

/// How similar two names must be, from 0 to 1, for one to be suggested for the other.
const SIMILARITY_MIN: f64 = 0.75;

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
    pub(crate) json: bool,
}

pub(crate) fn run(args: &ExplainArgs) -> CommandResult {
    let attributes = args.request.read()?;
    let config = configuration::read_or_built_in(args.config.as_deref())?;
    let selector = Selector::new(&config);
    let result = explain(&config, &selector, &attributes, &args.limits)?;
    output(args.json, &result, || result::lines(&result), Exit::Done)
}

/// Explains the limits with these names, or all limits if there are no names.
fn explain<'a>(
    config: &Config,
    selector: &'a Selector,
    attributes: &'a RequestAttributes,
    names: &[String],
) -> Result<ExplainOutput<'a>, CommandError> {
    configuration::require_limits(selector, names)?;

    let hashing = config.hashing.as_ref();
    let hashed = hashing.map_or(&[][..], |hashing| &hashing.attributes);
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let explanations = selector.explain(attributes).into_iter();
    let limits = explanations
        .filter(|(limit, _)| is_wanted(limit.rule.name()))
        .map(|(limit, explanation)| LimitExplanation::new(limit, explanation, hashed));

    Ok(ExplainOutput {
        limits: limits.collect(),
        unused: unused(config, attributes),
    })
}

/// The attributes of the request that no limit uses: usually a misspelt name, which would otherwise
/// go unnoticed.
fn unused(config: &Config, attributes: &RequestAttributes) -> Vec<UnusedAttribute> {
    let limits = config.limits.iter();
    let known: Vec<&Attribute> = limits.flat_map(LimitConfig::attributes).collect();

    attributes
        .iter()
        .map(|(attribute, _)| attribute)
        .filter(|attribute| !known.contains(attribute))
        .map(|attribute| UnusedAttribute {
            attribute: attribute.to_string(),
            suggestion: most_similar(attribute, &known),
        })
        .collect()
}

fn most_similar(name: &Attribute, known: &[&Attribute]) -> Option<String> {
    // A built-in name is spelt correctly, so a similar custom name is the mistake.
    if name.kind() != AttributeKind::Custom {
        return None;
    }

    let similarity =
        |other: &&&Attribute| strsim::normalized_damerau_levenshtein(name.name(), other.name());
    let best = known
        .iter()
        .max_by(|one, other| similarity(one).total_cmp(&similarity(other)))?;
    (similarity(&best) >= SIMILARITY_MIN).then(|| best.to_string())
}
