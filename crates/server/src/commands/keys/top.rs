//! `tollgate keys top`: the keys that use a limit most.

use hyper::Method;
use serde_json::Value;

use super::super::admin_port::{self, Members, TOKEN_VARIABLE, escaped, format_value};
use super::super::client::ClientArgs;
use super::super::numbers::{counted, grouped};
use super::super::outcome::{CommandResult, Exit, output};
use super::super::terminal::{Align, Cell, Tone, head, plain, table};

/// Arguments of `tollgate keys top`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// URL of the admin listener, with http or https; `http://` may be omitted
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090")]
    admin: String,
    /// Name of the limit [default: all limits]
    #[arg(long, short, value_name = "NAME")]
    limit: Option<String>,
    /// List the keys that were denied most; the default
    #[arg(long, conflicts_with = "admitted")]
    denied: bool,
    /// List the keys that were admitted most
    #[arg(long)]
    admitted: bool,
    /// How far back to look: 1, 5 or 60 minutes
    #[arg(long, value_name = "MINUTES", default_value = "5",
          value_parser = clap::builder::PossibleValuesParser::new(["1", "5", "60"]))]
    minutes: String,
    /// The most keys to list, up to 100
    #[arg(long, value_name = "COUNT", default_value_t = 10,
          value_parser = clap::value_parser!(u8).range(1..=100))]
    count: u8,
    #[command(flatten)]
    pub(super) client: ClientArgs,
}

pub(super) fn send(args: &TopArgs) -> CommandResult {
    let by = if args.admitted { "admitted" } else { "denied" };
    let limit = args.limit.as_deref().map(escaped);
    let limit = limit.map(|limit| format!("&limit={limit}"));
    let path = format!(
        "/admin/top?by={by}&minutes={}&count={}{}",
        args.minutes,
        args.count,
        limit.unwrap_or_default()
    );

    let (client, variables) = (&args.client, [TOKEN_VARIABLE]);
    let body = admin_port::send(client, &args.admin, &variables, Method::GET, &path, None)?;
    output(client.json, &body, || lines(&body), Exit::Done)
}

/// What the list covers, the keys, and how a hashed key can be found.
fn lines(body: &Members) -> Vec<String> {
    let number = |name: &str| body.get(name).and_then(Value::as_u64).unwrap_or(0);
    let by = body.get("by").and_then(Value::as_str).unwrap_or("denied");
    let keys = body.get("keys").and_then(Value::as_array);
    let keys = keys.map(Vec::as_slice).unwrap_or_default();

    let covers = format!(
        "{}, last {}, {}",
        plain(by),
        counted(number("minutes"), "minute"),
        counted(number("replicas"), "replica")
    );
    if keys.is_empty() {
        return vec![format!("no keys: {covers}")];
    }

    let mut rows = vec![head(["limit", "key", "units", "units/s", "requests"])];
    rows.extend(keys.iter().map(cells));
    let parts = keys.iter().filter_map(|row| row["key"].as_array());
    let is_hashed = parts.flatten().any(|part| part["hashed"] == true);
    let hint = "to find a hashed key, compare with the hash of a value: \
                tollgate keys get --limit NAME -a ATTRIBUTE=VALUE";

    std::iter::once(Tone::Dim.paint(&covers))
        .chain(table(&rows, Align::Left))
        .chain(is_hashed.then(|| Tone::Dim.paint(hint)))
        .collect()
}

/// A key in one line. An upper bound is marked, with what is certain.
fn cells(row: &Value) -> Vec<Cell> {
    let number = |name: &str| row[name].as_u64().unwrap_or(0);
    let (units, error) = (number("units"), number("error"));
    let certain = grouped(units.saturating_sub(error));
    let units = match error {
        0 => certain,
        _ => format!("{} (at least {certain})", grouped(units)),
    };
    let rate = row["units_per_second"].as_f64().unwrap_or(0.0);

    vec![
        (Tone::Name, plain(row["limit"].as_str().unwrap_or_default())),
        (Tone::Plain, format_value("key", &row["key"])),
        (Tone::Plain, units),
        (Tone::Plain, format!("{rate:.2}")),
        (Tone::Plain, grouped(number("requests"))),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::super::terminal::without_colours;
    use super::*;

    #[test]
    fn keys_are_listed_with_their_bounds_and_a_hint_for_hashes() {
        let body = serde_json::json!({
            "by": "denied", "minutes": 5, "replicas": 2,
            "keys": [
                {"limit": "login", "units": 12_345, "error": 0, "requests": 12_345,
                 "units_per_second": 41.15,
                 "key": [{"attribute": "client_ip", "value": "203.0.113.7", "hashed": false}]},
                {"limit": "plan", "units": 90, "error": 8, "requests": 82, "units_per_second": 0.3,
                 "key": [{"attribute": "email", "value": "ab\u{202e}12", "hashed": true}]},
            ],
        });
        assert_eq!(
            without_colours(&lines(body.as_object().unwrap()).join("\n")),
            "denied, last 5 minutes, 2 replicas\n\
             limit  key                          units             units/s  requests\n\
             login  client_ip = 203.0.113.7      12,345            41.15    12,345\n\
             plan   email = ab\\u{202e}12 (hash)  90 (at least 82)  0.30     82\n\
             to find a hashed key, compare with the hash of a value: \
             tollgate keys get --limit NAME -a ATTRIBUTE=VALUE"
        );

        let none = serde_json::json!({"by": "admitted", "minutes": 1, "replicas": 1, "keys": []});
        assert_eq!(
            lines(none.as_object().unwrap()),
            ["no keys: admitted, last 1 minute, 1 replica"]
        );
    }
}
