//! `tollgate keys`: shows or resets a counter, or lists the heaviest keys, through the admin port.
//!
//! The members of the response are printed one by one, so that services of other versions can be
//! queried too.

mod response;
mod top;

use std::fmt::Write as _;
use std::process::ExitCode;

use hyper::Method;
use percent_encoding::utf8_percent_encode;
use serde_json::{Map, Value};

use self::response::format_key;
pub(super) use self::response::{ESCAPED, TOKEN_VARIABLE, parse};
pub use self::top::TopArgs;
use super::attributes::{AttributeArgs, RequestAttributes};
use super::client::{self, ClientArgs, ServiceRequest};
use super::numbers;
use super::outcome::{CommandError, CommandResult, Exit, finish, invalid, output};
use super::terminal::{Align, Tone, plain, table};

/// Arguments of `tollgate keys`.
#[derive(Clone, Debug, clap::Args)]
pub struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

/// The subcommands of `tollgate keys`.
#[derive(Clone, Debug, clap::Subcommand)]
#[non_exhaustive]
pub enum KeysCommand {
    /// Show what a key has used of a limit
    #[command(after_long_help = crate::help::KEYS_GET)]
    Get(KeyArgs),
    /// Reset what a key has used of a limit
    #[command(after_long_help = crate::help::KEYS_RESET)]
    Reset(KeyArgs),
    /// List the keys that use a limit most: those denied most, or admitted most
    #[command(after_long_help = crate::help::KEYS_TOP)]
    Top(TopArgs),
}

/// Arguments of `keys get` and `keys reset`: the counter, and the service that has it.
#[derive(Clone, Debug, clap::Args)]
pub struct KeyArgs {
    /// URL of the admin listener, with http or https; `http://` may be omitted
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090")]
    admin: String,
    /// Name of the limit
    #[arg(long, short, value_name = "NAME")]
    limit: String,
    #[command(flatten)]
    key: AttributeArgs,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn run(args: &KeysArgs) -> ExitCode {
    let (method, args) = match &args.command {
        KeysCommand::Get(args) => (Method::GET, args),
        KeysCommand::Reset(args) => (Method::DELETE, args),
        KeysCommand::Top(args) => return finish(top::send(args), args.client.json),
    };
    finish(send(method, args), args.client.json)
}

fn send(method: Method, args: &KeyArgs) -> CommandResult {
    let variables = [TOKEN_VARIABLE, client::TOKEN_VARIABLE];
    let service = args.client.connection.service(&args.admin, &variables)?;
    let path = path(&args.limit, &args.key.read()?)?;

    let is_reset = method == Method::DELETE;
    let request = ServiceRequest {
        method,
        path: &path,
        body: Vec::new(),
    };
    let response = client::send(&service, request, args.client.timeout)?;
    let had_token = service.authorization.is_some();
    let body = parse(&response, had_token).map_err(|error| error.with_response(response.json()))?;

    let text = || lines(&body, is_reset);
    output(args.client.json, &body, text, Exit::Done)
}

fn path(limit: &str, attributes: &RequestAttributes) -> Result<String, CommandError> {
    let escaped = |text: &str| utf8_percent_encode(text, ESCAPED).to_string();

    let mut path = format!("/admin/keys?limit={}", escaped(limit));
    for (attribute, value) in attributes.iter() {
        if attribute.name() == "limit" {
            return Err(invalid(
                "-a: the attribute `limit` is not supported here: it would be taken for the name \
                 of the limit",
            ));
        }
        let _infallible = write!(path, "&{}={}", escaped(attribute.name()), escaped(value));
    }
    Ok(path)
}

/// The members one per line, beginning with the limit and the key.
fn lines(body: &Map<String, Value>, is_reset: bool) -> Vec<String> {
    let first = ["limit", "key"];
    let leading = first.iter().filter_map(|name| body.get_key_value(*name));
    let others = body
        .iter()
        .filter(|(name, _)| !first.contains(&name.as_str()));
    let row = |(name, value): (&String, &Value)| {
        let value_cell = (Tone::Plain, format_value(name, value));
        vec![(Tone::Name, label(name, value)), value_cell]
    };
    let rows: Vec<_> = leading.chain(others).map(row).collect();

    let reset = is_reset.then(|| Tone::Good.paint("reset"));
    reset.into_iter().chain(table(&rows, Align::Left)).collect()
}

/// The name of a member. Durations are printed with their units, so `_ms` is dropped.
pub(super) fn label(name: &str, value: &Value) -> String {
    let is_duration = value.is_u64() || value.is_null();
    let name = name
        .strip_suffix("_ms")
        .filter(|_| is_duration)
        .unwrap_or(name);
    plain(name)
}

/// The value of a member on one line.
pub(super) fn format_value(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        Value::Null => "none".to_owned(),
        Value::Number(number) if name.ends_with("_ms") => number
            .as_u64()
            .map_or_else(|| number.to_string(), numbers::length),
        Value::Array(_) if name == "key" => format_key(value),
        Value::Array(names) if name == "ignored" => {
            let names = names.iter().filter_map(Value::as_str).map(plain);
            let names = names.collect::<Vec<_>>().join(", ");
            format!("{names} (the limit does not use this)")
        }
        Value::Object(lockout) if name == "lockout" => format_lockout(lockout),
        other => plain(&other.to_string()),
    }
}

/// A lockout, such as `locked for 14m 59s, lockouts: 2` or `denials: 3, lockouts: 0`.
fn format_lockout(lockout: &Map<String, Value>) -> String {
    let number = |name: &str| lockout.get(name).and_then(Value::as_u64).unwrap_or(0);
    let state = match number("locked_ms") {
        0 => format!("denials: {}", number("denials")),
        millis => format!("locked for {}", numbers::length(millis)),
    };
    format!("{state}, lockouts: {}", number("level"))
}

#[cfg(test)]
mod tests {
    use super::super::terminal::without_colours;
    use super::*;

    #[test]
    fn members_are_printed_one_per_line() {
        let body = serde_json::json!({
            "remaining": 3, "retry_after_ms": null, "reset_after_ms": 61_000, "new": {"a": [1]},
            "lockout": {"denials": 0, "locked_ms": 61_000, "level": 2},
            "limit": "login",
            "key": [{"attribute": "client_ip", "value": "203.0.113.7"},
                    {"attribute": "email", "value": "ab12", "hashed": true}],
        });
        assert_eq!(
            without_colours(&lines(body.as_object().unwrap(), false).join("\n")) + "\n",
            "limit        login\nkey          client_ip = 203.0.113.7, email = ab12 (hash)\n\
             lockout      locked for 1m 1s, lockouts: 2\n\
             new          {\"a\":[1]}\nremaining    3\nreset_after  1m 1s\nretry_after  none\n"
        );
    }

    #[test]
    fn everything_in_a_query_is_escaped() {
        let wanted = "/admin/keys?limit=a%2Fb";
        assert_eq!(path("a/b", &RequestAttributes::default()).unwrap(), wanted);
    }
}
