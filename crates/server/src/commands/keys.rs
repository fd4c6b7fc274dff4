//! `tollgate keys`: looks at a counter, or sets it back, through the admin port.
//!
//! What the port says about a counter is printed as it comes, member by member, so that a service
//! of another version can be asked too.

use std::fmt::Write as _;
use std::process::ExitCode;

use hyper::{Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use super::attributes::{AttributeArgs, Given};
use super::client::{Answer, Ask, ClientArgs, Target};
use super::terminal::{Paint, Tone, plain};
use super::{Exit, Failure, Printed, end, numbers};

/// The same variable as the service reads its token from.
const TOKEN_VARIABLE: &str = "TOLLGATE_ADMIN_TOKEN";
/// What a query can hold as it is.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// What to do with a counter.
#[derive(Clone, Debug, clap::Args)]
pub struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

/// What to do with a counter.
#[derive(Clone, Debug, clap::Subcommand)]
#[non_exhaustive]
pub enum KeysCommand {
    /// Show what a limit has counted for a caller
    #[command(after_long_help = crate::cli::help::KEYS_GET)]
    Get(KeyArgs),
    /// Forget what a limit has counted for a caller
    #[command(after_long_help = crate::cli::help::KEYS_RESET)]
    Reset(KeyArgs),
}

/// Which counter, and whom to ask.
#[derive(Clone, Debug, clap::Args)]
pub struct KeyArgs {
    /// The admin port of the service; http:// may be left out
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090")]
    admin: String,
    /// The limit
    #[arg(long, short, value_name = "NAME")]
    limit: String,
    #[command(flatten)]
    caller: AttributeArgs,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn run(args: &KeysArgs) -> ExitCode {
    let (method, args) = match &args.command {
        KeysCommand::Get(args) => (Method::GET, args),
        KeysCommand::Reset(args) => (Method::DELETE, args),
    };
    end(ask(method, args), args.client.json)
}

fn ask(method: Method, args: &KeyArgs) -> Printed {
    let target = Target::parse(&args.admin)?;
    let path = path(&args.limit, &args.caller.read()?)?;
    let token = std::env::var(TOKEN_VARIABLE)
        .ok()
        .filter(|token| !token.is_empty());
    let is_reset = method == Method::DELETE;
    let ask = Ask {
        method,
        path: &path,
        token: token.as_deref(),
        body: Vec::new(),
    };
    let answer = target.ask(ask, args.client.timeout)?;
    let body = read(&answer, token.is_some()).map_err(|failure| failure.with(&answer))?;
    let text = if args.client.json {
        format!("{}\n", Value::Object(body))
    } else {
        told(&body, is_reset, Paint::for_stdout())
    };
    Ok((text, Exit::Done))
}

fn path(limit: &str, given: &Given) -> Result<String, Failure> {
    let escaped = |text: &str| utf8_percent_encode(text, ESCAPED).to_string();
    let mut path = format!("/admin/keys?limit={}", escaped(limit));
    for (attribute, value) in given.iter() {
        if attribute.name() == "limit" {
            return Err(Failure::wrong(
                "-a: the attribute `limit` cannot be asked about here, because --limit goes by that name",
            ));
        }
        let _infallible = write!(path, "&{}={}", escaped(attribute.name()), escaped(value));
    }
    Ok(path)
}

/// The object in an answer that is one; nothing at all is an empty one.
fn read(answer: &Answer, had_token: bool) -> Result<Map<String, Value>, Failure> {
    let status = answer.status;
    if status.is_success() {
        return match answer.json() {
            Some(Value::Object(body)) => Ok(body),
            _ if answer.body.is_empty() => Ok(Map::new()),
            _ => Err(Failure::no_answer(
                "what came is no answer of an admin port; is this its address?",
            )),
        };
    }
    let detail = answer
        .detail()
        .map(|detail| format!(": {detail}"))
        .unwrap_or_default();
    if status == StatusCode::UNAUTHORIZED {
        let hint = if had_token {
            "it is not the service's"
        } else {
            "it is not set here"
        };
        return Err(Failure::wrong(format!(
            "the admin port wants the token of {TOKEN_VARIABLE}, and {hint}"
        )));
    }
    if status.is_client_error() && !detail.is_empty() {
        return Err(Failure::wrong(format!(
            "the admin port refuses ({status}){detail}"
        )));
    }
    Err(Failure::no_answer(format!(
        "the admin port gave no answer ({status}){detail}"
    )))
}

/// The members, those first that say whose counter it is.
fn told(body: &Map<String, Value>, is_reset: bool, paint: Paint) -> String {
    let mut text = if is_reset {
        paint.tone(Tone::Good, "reset") + "\n"
    } else {
        String::new()
    };
    let first = ["limit", "key"];
    let named = first.iter().filter_map(|name| body.get_key_value(*name));
    let others = body
        .iter()
        .filter(|(name, _)| !first.contains(&name.as_str()));
    let width = body
        .keys()
        .map(|name| plain(name).len())
        .max()
        .unwrap_or_default();
    for (name, value) in named.chain(others) {
        let name = format!("{:width$}", plain(name));
        let _infallible = writeln!(
            text,
            "{}  {}",
            paint.tone(Tone::Name, &name),
            shown(name.trim_end(), value)
        );
    }
    text
}

/// A member's value on one line.
fn shown(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        Value::Null => "none".to_owned(),
        Value::Number(number) if name.ends_with("_ms") => number
            .as_u64()
            .map_or_else(|| number.to_string(), numbers::length),
        Value::Array(parts) if name == "key" && parts.is_empty() => {
            "one counter for everyone".to_owned()
        }
        Value::Array(parts) if name == "key" => {
            parts.iter().map(part).collect::<Vec<_>>().join(", ")
        }
        other => plain(&other.to_string()),
    }
}

/// A part of a key: `client_ip = 203.0.113.7`.
fn part(part: &Value) -> String {
    let (Some(attribute), Some(value)) = (part["attribute"].as_str(), part["value"].as_str())
    else {
        return plain(&part.to_string());
    };
    let hash = if part["hashed"] == true {
        " (hash)"
    } else {
        ""
    };
    format!("{} = {}{hash}", plain(attribute), plain(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_told_member_by_member() {
        let body = serde_json::json!({
            "remaining": 3, "retry_after_ms": null, "reset_after_ms": 61_000, "new": {"a": [1]}, "limit": "login",
            "key": [{"attribute": "client_ip", "value": "203.0.113.7"}, {"attribute": "email", "value": "ab12", "hashed": true}],
        });
        assert_eq!(
            told(body.as_object().unwrap(), false, Paint::off()),
            "limit           login\nkey             client_ip = 203.0.113.7, email = ab12 (hash)\n\
             new             {\"a\":[1]}\nremaining       3\nreset_after_ms  1m 1s\nretry_after_ms  none\n"
        );
    }

    #[test]
    fn everything_in_a_query_is_escaped() {
        let wanted = "/admin/keys?limit=a%2Fb";
        assert_eq!(path("a/b", &Given::default()).unwrap(), wanted);
    }
}
