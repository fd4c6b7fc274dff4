//! `tollgate audit-paths`: which spellings of a request get past a limit of the operator's stack.
//!
//! The method needs no knowledge of the stack: use the limit up with plain requests, then send
//! every variant. A variant that still gets the handler's response was not counted by the limit.
//!
//! - `corpus`: the rules, and the variants that they make of a request.
//! - `exchange`: one request and its response, byte by byte.
//! - `judge`: uses the limit up, sends the variants and judges the responses.
//! - `report`: the result as text.

mod corpus;
mod exchange;
mod judge;
mod report;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};

use self::corpus::{NamedValue, PlainRequest};
use self::judge::Audit;
use super::client::{self, block_on};
use super::outcome::{CommandError, CommandResult, Exit, invalid, output};
use super::terminal::{LINE_INTERVAL, ProgressLine, plain};

/// The longest file of rules, in bytes.
const RULES_MAX: u64 = 1 << 20;

/// Arguments of `tollgate audit-paths`.
#[derive(Clone, Debug, clap::Args)]
pub struct AuditPathsArgs {
    /// URL of a limited handler, as clients see it, such as `http://127.0.0.1/auth/login`; variants
    /// of its path and of its query parameters are sent
    #[arg(long, value_name = "URL")]
    url: String,
    /// Method of the requests
    #[arg(long, short, value_name = "METHOD", default_value = "POST")]
    method: Method,
    /// Cookie of the requests, of which variants are sent
    #[arg(long, value_name = "NAME=VALUE", value_parser = cookie)]
    cookie: Option<NamedValue>,
    /// Header of the requests, of which variants are sent; may be repeated
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<NamedValue>,
    /// Body of the requests, as a form; with --header 'Content-Type: ..' as that type
    #[arg(long, short, value_name = "TEXT")]
    data: Option<String>,
    /// Status of a request that the limit denies
    #[arg(long, value_name = "STATUS", default_value = "429")]
    deny_status: u16,
    /// Take every response with this status for the handler's, whatever its body; may be repeated
    /// [default: responses like that to the plain request]
    #[arg(long = "expect-status", value_name = "STATUS")]
    expect_statuses: Vec<u16>,
    /// Most plain requests until the limit denies
    #[arg(long, value_name = "N", default_value = "1000")]
    plain_max: u32,
    /// Send only variants of this class, such as `dot-segment`; may be repeated
    #[arg(long = "class", value_name = "CLASS")]
    classes: Vec<String>,
    /// Also combine the rules for slashes in pairs: some 60,000 requests more
    #[arg(long)]
    thorough: bool,
    /// More rules, in the format of docs/audit-paths.md
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Time to wait for a response, such as 500ms or 5s
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = client::timeout)]
    timeout: Duration,
    /// Do not show progress
    #[arg(long, short)]
    quiet: bool,
    /// Print the report as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &AuditPathsArgs) -> CommandResult {
    let (replica, request) = plain_request(args)?;
    let variants = variants(args, &request)?;
    let audit = Audit {
        replica,
        request,
        deny_status: args.deny_status,
        expect_statuses: args.expect_statuses.clone(),
        plain_max: args.plain_max,
        timeout: args.timeout,
    };
    let mut line = ProgressLine::new(Some(LINE_INTERVAL), args.quiet);
    let on_progress = |text: String| line.show(|_| text);

    let report = block_on(audit.run(&variants, on_progress))?;
    line.clear();
    let report = report?;
    let exit = Exit::denied_if(!report.uncounted.is_empty());
    output(args.json, &report, || report::lines(&report), exit)
}

/// The address, and the request whose variants are sent.
fn plain_request(
    args: &AuditPathsArgs,
) -> Result<(tollgate_load::Replica, PlainRequest), CommandError> {
    // `parse_url` accepts neither a query nor a path that means something.
    let mut parts = args.url.splitn(2, '?');
    let (url, query) = (parts.next().unwrap_or_default(), parts.next());
    if url.starts_with("https:") {
        return Err(invalid(
            "https is not supported: send the requests to the plain port behind the part that ends \
             TLS, with a URL such as http://127.0.0.1/auth/login",
        ));
    }
    let (replica, _scheme) = client::parse_url(url)?;

    if !replica.base.contains(|c: char| c.is_ascii_alphabetic()) {
        return Err(invalid(
            "the URL needs the path of a limited handler, such as http://127.0.0.1/auth/login",
        ));
    }

    let request = PlainRequest {
        method: args.method.clone(),
        authority: replica.authority.clone(),
        path: replica.base.clone(),
        query: query.map(str::to_owned),
        cookie: args.cookie.clone(),
        headers: args.headers.clone(),
        body: args.data.clone().unwrap_or_default(),
    };
    Ok((replica, request))
}

fn variants(
    args: &AuditPathsArgs,
    request: &PlainRequest,
) -> Result<Vec<corpus::Variant>, CommandError> {
    let mut rules = corpus::built_in().map_err(invalid)?;
    if let Some(file) = &args.rules {
        let name = plain(&file.display().to_string());
        let text =
            read_rules(file).map_err(|error| invalid(format!("cannot read {name}: {error}")))?;
        rules.extend(corpus::parse(&text).map_err(|error| invalid(format!("{name}: {error}")))?);
    }

    let classes = corpus::classes(&rules);
    if let Some(unknown) = args
        .classes
        .iter()
        .find(|class| !classes.contains(&***class))
    {
        let classes = classes.into_iter().collect::<Vec<_>>().join(", ");
        return Err(invalid(format!(
            "--class: unknown class {unknown:?}; expected one of {classes}"
        )));
    }

    if !args.classes.is_empty() {
        rules.retain(|rule| args.classes.contains(&rule.class));
    }
    Ok(corpus::variants(&rules, request, args.thorough))
}

/// Reads a file of rules, which may be endless.
fn read_rules(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut input = File::open(file)?.take(RULES_MAX + 1);
    let length = input.read_to_string(&mut text)?;
    if length as u64 > RULES_MAX {
        let error = format!("it has more than {RULES_MAX} bytes, the most that are read");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    Ok(text)
}

fn cookie(text: &str) -> Result<NamedValue, String> {
    let pair = text.split_once('=');
    let (name, value) = pair
        .filter(|(name, value)| !name.is_empty() && !value.is_empty())
        .ok_or("expected NAME=VALUE, such as session=abc")?;
    // A cookie is sent in a header, so the same characters are allowed.
    header(&format!("{name}: {value}")).map(|_| NamedValue::new(name, value))
}

fn header(text: &str) -> Result<NamedValue, String> {
    let parse = || {
        let (name, value) = text.split_once(':')?;
        let value = value.trim();
        name.parse::<HeaderName>().ok()?;
        value.parse::<HeaderValue>().ok()?;
        (!value.is_empty()).then(|| NamedValue::new(name, value))
    };
    parse().ok_or_else(|| "expected NAME: VALUE, such as 'X-Api-Key: abc'".to_owned())
}
