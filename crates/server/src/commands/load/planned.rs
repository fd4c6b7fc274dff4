//! From what was typed to a plan, or to what would be right.

use std::io::Read as _;
use std::path::Path;

use tollgate_load::{Addresses, Asking, Keys, Pace, Plan, Standard, Template};
use tollgate_rules::{Attribute, AttributeKind, Selector};

use super::super::attributes::Given;
use super::super::client::Target;
use super::super::explain::unknown_limit;
use super::super::{Failure, configuration};
use super::words::KeysWord;
use super::{LoadArgs, Shape};

/// The largest file of keys.
const FILE_MAX: u64 = 64 << 20;
/// The most replicas.
const REPLICAS_MAX: usize = 1_000;

pub(super) fn plan(args: &LoadArgs) -> Result<Plan, Failure> {
    let replicas: Result<Vec<_>, Failure> = args
        .urls
        .iter()
        .map(|url| Target::parse(url).map(Into::into))
        .collect();
    let replicas = replicas?;
    if replicas.len() > REPLICAS_MAX || replicas.len() > usize::from(args.connections) {
        let (found, most) = (replicas.len(), REPLICAS_MAX.min(args.connections.into()));
        let text = format!(
            "--url is given {found} times; {most} is the most here, and each needs one of --connections"
        );
        return Err(Failure::wrong(text));
    }
    Ok(Plan {
        replicas,
        asking: asking(args)?,
        pace: pace(args)?,
        keys: keys(&args.keys)?,
        addresses: match args.shape {
            Shape::CredentialStuffing => Addresses::Among(args.addresses),
            Shape::Steady | Shape::EdgeBurst => Addresses::OfTheKey,
        },
        costs: args.cost.clone(),
        connections: args.connections.into(),
        timeout: args.timeout,
        standard: standard(args)?,
        allowances: args.allowances.clone(),
        retry_budget: args.retry_for,
        seed: args.seed,
    })
}

fn pace(args: &LoadArgs) -> Result<Pace, Failure> {
    if args.ramp > args.duration {
        return Err(Failure::wrong(
            "--ramp is longer than --duration, so the rate would never be reached; make it shorter",
        ));
    }
    let edges_of = match (args.shape, args.window) {
        (Shape::EdgeBurst, None) => {
            return Err(Failure::wrong(
                "--shape edge-burst needs --window, the window of the limit, as in --window 1m",
            ));
        }
        (Shape::EdgeBurst, Some(window)) if window > args.duration => {
            return Err(Failure::wrong(
                "--window is longer than --duration, so there may be no edge; make --duration longer",
            ));
        }
        (Shape::EdgeBurst, window) => window,
        (_, Some(_)) => {
            return Err(Failure::wrong(
                "--window is for --shape edge-burst alone; leave it out",
            ));
        }
        (_, None) => None,
    };
    let (rate_per_s, duration, ramp) = (args.rate, args.duration, args.ramp);
    Ok(Pace {
        rate_per_s,
        duration,
        ramp,
        arrivals: args.arrivals.into(),
        edges_of,
    })
}

fn keys(word: &KeysWord) -> Result<Keys, Failure> {
    let wrong = |error| Failure::wrong(format!("--keys: {error}"));
    match word {
        KeysWord::One => Ok(Keys::one()),
        KeysWord::Uniform(count) => Ok(Keys::uniform(*count)),
        KeysWord::Zipf(count, exponent) => Keys::zipf(*count, *exponent).map_err(wrong),
        KeysWord::File(path) => Keys::listed(&text(path)?).map_err(wrong),
    }
}

fn text(path: &Path) -> Result<String, Failure> {
    let unreadable =
        |error| Failure::wrong(format!("--keys: cannot read {}: {error}", path.display()));
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(FILE_MAX + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    if text.len() as u64 > FILE_MAX {
        return Err(Failure::wrong(format!(
            "--keys: {} is larger than 64 MiB, which is the most",
            path.display()
        )));
    }
    Ok(text)
}

fn asking(args: &LoadArgs) -> Result<Asking, Failure> {
    let given = args.request.read()?;
    let template = |name: &str, text: &str| {
        Template::parse(text)
            .map_err(|error| Failure::wrong(format!("the value of `{name}`: {error}")))
    };
    if let Some(path) = &args.get {
        if !path.starts_with('/') {
            return Err(Failure::wrong(
                "--get: a path begins with `/`, as in --get /search",
            ));
        }
        return Ok(Asking::Get {
            path: template("--get", path)?,
            headers: headers(&given, template)?,
        });
    }
    let mut attributes = Vec::new();
    for (attribute, value) in given.iter() {
        attributes.push((attribute.clone(), template(attribute.name(), value)?));
    }
    if attributes.is_empty() {
        // What the limit that is built in counts by.
        let client_ip: Attribute = "client_ip"
            .parse()
            .map_err(|error| Failure::wrong(format!("-a: {error}")))?;
        attributes.push((client_ip, template("client_ip", "{ip}")?));
    }
    Ok(Asking::Check {
        attributes,
        limits: args.limits.clone(),
    })
}

fn headers(
    given: &Given,
    template: impl Fn(&str, &str) -> Result<Template, Failure>,
) -> Result<Vec<(String, Template)>, Failure> {
    let mut headers = Vec::new();
    for (attribute, value) in given.iter() {
        let value = template(attribute.name(), value)?;
        if attribute.kind() != AttributeKind::Header {
            let name = attribute.name();
            let text = format!(
                "-a: with --get there are only headers, and `{name}` is none; write header:NAME=VALUE"
            );
            return Err(Failure::wrong(text));
        }
        if value.has_controls() {
            return Err(Failure::wrong(
                "-a: a header cannot hold control characters",
            ));
        }
        headers.push((attribute.field().to_owned(), value));
    }
    Ok(headers)
}

/// By what limits are judged. A name that no limit has is a slip that is better told before the
/// load than after it.
fn standard(args: &LoadArgs) -> Result<Standard, Failure> {
    let Some(file) = &args.config else {
        return Ok(Standard::Answers);
    };
    let config = configuration::read(file)
        .map_err(|wrong| Failure::wrong(format!("the configuration is wrong:\n{wrong}")))?;
    let named = args
        .allowances
        .iter()
        .filter_map(|allowance| allowance.limit.as_ref());
    let selector = Selector::new(&config);
    for name in args.limits.iter().chain(named) {
        if !selector.rules().any(|rule| rule.limit.name() == name) {
            return Err(Failure::wrong(unknown_limit(&selector, name)));
        }
    }
    Ok(Standard::configured(&config))
}
