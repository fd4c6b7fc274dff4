//! `tollgate keys`: shows or resets a counter, or lists the heaviest keys, through the admin port.

mod top;

use std::fmt::Write as _;

use hyper::Method;
use serde_json::Value;

pub(crate) use self::top::TopArgs;
use super::admin_port::{self, Members, TOKEN_VARIABLE, escaped, format_value, label};
use super::attributes::{AttributeArgs, RequestAttributes};
use super::client::{self, ClientArgs};
use super::outcome::{CommandError, CommandResult, Exit, invalid, output};
use super::terminal::{Align, Tone, name_row, table};

/// Arguments of `tollgate keys`.
#[derive(Clone, Debug, clap::Args)]
pub struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

/// The subcommands of `tollgate keys`.
#[derive(Clone, Debug, clap::Subcommand)]
#[non_exhaustive]
pub(crate) enum KeysCommand {
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
pub(crate) struct KeyArgs {
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

/// The result, and whether it is printed as JSON.
pub(crate) fn run(args: &KeysArgs) -> (CommandResult, bool) {
    match &args.command {
        KeysCommand::Get(args) => (send(Method::GET, args), args.client.json),
        KeysCommand::Reset(args) => (send(Method::DELETE, args), args.client.json),
        KeysCommand::Top(args) => (top::send(args), args.client.json),
    }
}

fn send(method: Method, args: &KeyArgs) -> CommandResult {
    let variables = [TOKEN_VARIABLE, client::TOKEN_VARIABLE];
    let path = path(&args.limit, &args.key.read()?)?;
    let is_reset = method == Method::DELETE;
    let body = admin_port::send(&args.client, &args.admin, &variables, method, &path, None)?;

    let text = || lines(&body, is_reset);
    output(args.client.json, &body, text, Exit::Done)
}

fn path(limit: &str, attributes: &RequestAttributes) -> Result<String, CommandError> {
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
fn lines(body: &Members, is_reset: bool) -> Vec<String> {
    let mut members: Vec<(&String, &Value)> = body.iter().collect();
    members.sort_by_key(|(name, _)| match name.as_str() {
        "limit" => 0,
        "key" => 1,
        _ => 2,
    });
    let rows: Vec<_> = members
        .into_iter()
        .map(|(name, value)| name_row(label(name, value), format_value(name, value)))
        .collect();

    let reset = is_reset.then(|| Tone::Good.paint("reset"));
    reset.into_iter().chain(table(&rows, Align::Left)).collect()
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
