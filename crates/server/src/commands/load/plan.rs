//! Turns the command line options into a plan.

use std::io::Read as _;
use std::path::Path;

use tollgate_load::{
    BoundSource, KeyDistribution, LoadPlan, LoadSchedule, RequestKind, SourceAddresses,
    ValueTemplate,
};
use tollgate_rules::{Attribute, AttributeKind, Selector};

use super::super::outcome::{CommandError, invalid};
use super::super::{client, configuration};
use super::values::KeysArg;
use super::{LoadArgs, LoadShape};

/// The maximum size of a key file.
const FILE_MAX: u64 = 64 << 20;
const REPLICAS_MAX: usize = 1_000;

pub(super) fn plan(args: &LoadArgs) -> Result<LoadPlan, CommandError> {
    let service = |url: &String| args.connection.service(url, &[client::TOKEN_VARIABLE]);
    let replicas: Result<Vec<_>, _> = args.urls.iter().map(service).collect();
    let replicas = replicas?;
    let replicas_max = REPLICAS_MAX.min(args.connections.into());
    if replicas.len() > replicas_max {
        let found = replicas.len();
        return Err(invalid(format!(
            "too many --url: found {found}, expected at most {replicas_max}; \
             each replica needs at least one of --connections"
        )));
    }

    Ok(LoadPlan {
        replicas,
        request: request_kind(args)?,
        schedule: schedule(args)?,
        keys: keys(&args.keys)?,
        addresses: match args.shape {
            LoadShape::CredentialStuffing => SourceAddresses::Pool(args.addresses),
            LoadShape::Steady | LoadShape::EdgeBurst => SourceAddresses::PerKey,
        },
        cost: args.cost.clone(),
        connections: args.connections.into(),
        timeout: args.timeout,
        bounds: bound_source(args)?,
        allowances: args.allowances.clone(),
        retry_budget: args.retry_for,
        seed: args.seed,
    })
}

fn schedule(args: &LoadArgs) -> Result<LoadSchedule, CommandError> {
    if args.ramp > args.duration {
        return Err(invalid(
            "--ramp must not be longer than --duration, or the rate would never be reached",
        ));
    }

    match (args.shape == LoadShape::EdgeBurst, args.window) {
        (true, None) => Err(invalid(
            "--shape edge-burst requires --window, the window of the limit, \
             such as --window 1m",
        )),
        (true, Some(window)) if window > args.duration => Err(invalid(
            "--window must not be longer than --duration, or there may be no window edge",
        )),
        (false, Some(_)) => Err(invalid("--window requires --shape edge-burst")),
        (_, burst_window) => Ok(LoadSchedule {
            rate_per_s: args.rate,
            duration: args.duration,
            ramp: args.ramp,
            arrivals: args.arrivals.into(),
            burst_window,
        }),
    }
}

fn keys(arg: &KeysArg) -> Result<KeyDistribution, CommandError> {
    let wrong = |error| invalid(format!("--keys: {error}"));
    match arg {
        KeysArg::One => Ok(KeyDistribution::single()),
        KeysArg::Uniform(count) => Ok(KeyDistribution::uniform(*count)),
        KeysArg::Zipf(count, exponent) => KeyDistribution::zipf(*count, *exponent).map_err(wrong),
        KeysArg::File(path) => KeyDistribution::from_lines(&read_keys(path)?).map_err(wrong),
    }
}

fn read_keys(path: &Path) -> Result<String, CommandError> {
    let unreadable = |error| invalid(format!("--keys: cannot read {}: {error}", path.display()));

    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(FILE_MAX + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    if text.len() as u64 > FILE_MAX {
        return Err(invalid(format!(
            "--keys: {} is larger than 64 MiB, which is the maximum",
            path.display()
        )));
    }
    Ok(text)
}

fn request_kind(args: &LoadArgs) -> Result<RequestKind, CommandError> {
    let mut attributes = Vec::new();
    for (attribute, value) in args.request.read()?.iter() {
        let value = template(attribute.name(), value)?;
        attributes.push((attribute.clone(), value));
    }

    if let Some(path) = &args.get {
        if !path.starts_with('/') {
            return Err(invalid(
                "--get: the path must start with `/`, such as --get /search",
            ));
        }
        let headers: Result<_, _> = attributes.into_iter().map(header).collect();
        return Ok(RequestKind::Get {
            path: template("--get", path)?,
            headers: headers?,
        });
    }

    if attributes.is_empty() {
        // The built-in limit counts by client address.
        let client_ip = "client_ip".parse();
        let client_ip = client_ip.map_err(|error| invalid(format!("-a: {error}")))?;
        attributes.push((client_ip, template("client_ip", "{ip}")?));
    }
    Ok(RequestKind::Check {
        attributes,
        limits: args.limits.clone(),
    })
}

fn template(name: &str, text: &str) -> Result<ValueTemplate, CommandError> {
    ValueTemplate::parse(text)
        .map_err(|error| invalid(format!("invalid value of `{name}`: {error}")))
}

/// The header that an attribute sets.
fn header(
    (attribute, value): (Attribute, ValueTemplate),
) -> Result<(String, ValueTemplate), CommandError> {
    if attribute.kind() != AttributeKind::Header {
        let name = attribute.name();
        return Err(invalid(format!(
            "-a: `{name}` is not a header; with --get expected header:NAME=VALUE"
        )));
    }
    if value.has_controls() {
        return Err(invalid("-a: a header must not have control characters"));
    }
    Ok((attribute.field().to_owned(), value))
}

/// The source of the bounds to judge by. An unknown limit name is an error here, before the load
/// starts.
fn bound_source(args: &LoadArgs) -> Result<BoundSource, CommandError> {
    let Some(file) = &args.config else {
        return Ok(BoundSource::Responses);
    };
    let config = configuration::read(file)?;
    let allowances = args.allowances.iter();
    let names = allowances.filter_map(|allowance| allowance.limit.as_ref());
    let selector = Selector::new(&config);
    configuration::require_limits(&selector, args.limits.iter().chain(names))?;

    Ok(BoundSource::from_config(&config))
}
