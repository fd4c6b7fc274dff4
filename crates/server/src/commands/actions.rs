//! `tollgate block`, `exempt`, `override` and `shadow`: act on a key or a limit through the admin port,
//! list what is in force, and undo it.

mod args;

use std::process::ExitCode;
use std::time::Duration;

use hyper::Method;
use percent_encoding::utf8_percent_encode;
use serde_json::{Map, Value, json};

pub use self::args::{
    ActionArgs, ActionsCommand, AdminArgs, BlockArgs, ExemptArgs, ListActionsArgs, OverrideArgs,
    RemoveActionArgs, ShadowArgs, TargetArgs,
};
use super::client::{self, ServiceRequest};
use super::keys::{self, ESCAPED, TOKEN_VARIABLE};
use super::numbers;
use super::outcome::{CommandError, CommandResult, Exit, finish, invalid, output};
use super::terminal::{Align, Cell, Tone, plain, table};

/// The variables with the name of the user, for `--by`.
const USER_VARIABLES: [&str; 2] = ["USER", "LOGNAME"];

/// The longest to wait until all replicas know of a change. Within a second they do.
const WAIT: Duration = Duration::from_secs(2);

/// The members of a body.
type Members = Map<String, Value>;

/// Runs `tollgate block`.
pub(crate) fn block(args: &BlockArgs) -> ExitCode {
    let own = || {
        let mut body = args.target.body()?;
        insert(&mut body, "status", args.status.map(Value::from));
        Ok(body)
    };
    run("blocks", args.command.as_ref(), &args.action, own)
}

/// Runs `tollgate exempt`.
pub(crate) fn exempt(args: &ExemptArgs) -> ExitCode {
    let own = || args.target.body();
    run("exemptions", args.command.as_ref(), &args.action, own)
}

/// Runs `tollgate override`.
pub(crate) fn override_numbers(args: &OverrideArgs) -> ExitCode {
    let own = || {
        let mut body = args.target.body()?;
        insert(&mut body, "multiply", args.multiply.map(Value::from));
        insert(&mut body, "tier", args.tier.clone().map(Value::from));
        if !args.numbers.is_empty() {
            body.insert("quota".to_owned(), numbers_body(&args.numbers)?);
        }
        Ok(body)
    };
    run("overrides", args.command.as_ref(), &args.action, own)
}

/// Runs `tollgate shadow`.
pub(crate) fn shadow(args: &ShadowArgs) -> ExitCode {
    let own = || Ok(Map::from_iter([("shadow".to_owned(), json!(!args.off))]));
    run("shadows", args.command.as_ref(), &args.action, own)
}

fn run(
    plural: &str,
    command: Option<&ActionsCommand>,
    action: &ActionArgs,
    own: impl FnOnce() -> Result<Members, CommandError>,
) -> ExitCode {
    let (admin, result) = match command {
        Some(ActionsCommand::List(args)) => (&args.admin, list(plural, args)),
        Some(ActionsCommand::Remove(args)) => (&args.admin, remove(plural, args)),
        None => (&action.admin, act(plural, action, own)),
    };
    finish(result, admin.client.json)
}

fn act(
    plural: &str,
    args: &ActionArgs,
    own: impl FnOnce() -> Result<Members, CommandError>,
) -> CommandResult {
    let mut body = own()?;
    let by = args.by.clone().unwrap_or_else(user);
    insert(&mut body, "limit", args.limit.clone().map(Value::from));
    insert(&mut body, "for", args.length.clone().map(Value::from));
    insert(&mut body, "reason", args.reason.clone().map(Value::from));
    insert(&mut body, "by", Some(by.into()));

    let body = Value::Object(body).to_string().into_bytes();
    let path = format!("/admin/{plural}?wait={}", args.admin.wait());
    let response = args.admin.send(Method::POST, &path, body)?;
    let text = || members(&response);
    output(args.admin.client.json, &response, text, Exit::Done)
}

/// The name of the user, or the number where no variable has the name, as in cron jobs.
fn user() -> String {
    let mut names = USER_VARIABLES.iter();
    let name = names.find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    name.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

fn list(plural: &str, args: &ListActionsArgs) -> CommandResult {
    let query = args.limit.as_ref().map(|limit| {
        let limit = utf8_percent_encode(limit, ESCAPED);
        format!("?limit={limit}")
    });
    let path = format!("/admin/{plural}{}", query.unwrap_or_default());
    let response = args.admin.send(Method::GET, &path, Vec::new())?;

    let text = || {
        let listed = response.get(plural).and_then(Value::as_array);
        let rows: Vec<Vec<Cell>> = listed.into_iter().flatten().map(row).collect();
        let more = response.get("more").and_then(Value::as_u64);
        let more = more.map(|more| format!("and {more} older ones"));
        if rows.is_empty() {
            return vec![format!("no {plural}")];
        }
        table(&rows, Align::Left).into_iter().chain(more).collect()
    };
    output(args.admin.client.json, &response, text, Exit::Done)
}

fn remove(plural: &str, args: &RemoveActionArgs) -> CommandResult {
    let id = utf8_percent_encode(&args.id, ESCAPED);
    let path = format!("/admin/{plural}/{id}?wait={}", args.admin.wait());
    let response = args.admin.send(Method::DELETE, &path, Vec::new())?;
    let text = || members(&response);
    output(args.admin.client.json, &response, text, Exit::Done)
}

impl AdminArgs {
    /// How long to wait until all replicas know of a change: less than for the response as a
    /// whole, as the value of a parameter.
    fn wait(&self) -> String {
        let wait = (self.client.timeout / 3).min(WAIT);
        format!("{}ms", wait.as_millis())
    }

    fn send(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Members, CommandError> {
        let connection = &self.client.connection;
        let service = connection.service(&self.admin, &[TOKEN_VARIABLE])?;
        let request = ServiceRequest { method, path, body };
        let response = client::send(&service, request, self.client.timeout)?;
        let had_token = service.authorization.is_some();
        keys::parse(&response, had_token).map_err(|error| error.with_response(response.json()))
    }
}

impl TargetArgs {
    fn body(&self) -> Result<Members, CommandError> {
        let mut body = Map::new();
        if let Some(network) = &self.network {
            body.insert("network".to_owned(), json!(network));
            return Ok(body);
        }

        let attributes = self.key.read()?;
        let key = attributes.iter();
        let key = key.map(|(attribute, value)| (attribute.name().to_owned(), json!(value)));
        body.insert("key".to_owned(), Value::Object(key.collect()));
        Ok(body)
    }
}

/// The numbers of an override: whole numbers as such, rates and times as text.
fn numbers_body(numbers: &[String]) -> Result<Value, CommandError> {
    let mut body = Map::new();
    for text in numbers {
        let Some((name, value)) = text.split_once('=') else {
            let reason = format!("--set: {text:?} has no `=`; expected one such as limit=500");
            return Err(invalid(reason));
        };
        let number: Option<u64> = value.parse().ok();
        let value = number.map_or_else(|| json!(value), |number| json!(number));
        body.insert(name.to_owned(), value);
    }
    Ok(Value::Object(body))
}

fn insert(body: &mut Members, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        body.insert(name.to_owned(), value);
    }
}

/// The members of an action one per line.
fn members(action: &Members) -> Vec<String> {
    let shown = action.iter().filter(|(name, _)| !name.ends_with("_at_ms"));
    let rows = shown.map(|(name, value)| {
        let value_cell = match name.as_str() {
            "replicas" => replicas(value),
            _ => (Tone::Plain, keys::format_value(name, value)),
        };
        vec![(Tone::Name, keys::label(name, value)), value_cell]
    });
    table(&rows.collect::<Vec<_>>(), Align::Left)
}

/// Which replicas know of an action, such as `all 3 know` or `2 of 3 know, not yet: c`.
fn replicas(agreement: &Value) -> Cell {
    let number = |name: &str| agreement[name].as_u64().unwrap_or_default();
    let (seen, current) = (number("seen"), number("current"));
    let behind = agreement["behind"].as_array().into_iter().flatten();
    let behind: Vec<String> = behind.filter_map(Value::as_str).map(plain).collect();

    match (seen, behind.as_slice()) {
        (1, []) => (Tone::Plain, "this is the only one".to_owned()),
        (_, []) => (Tone::Plain, format!("all {seen} know")),
        (_, behind) => {
            let behind = behind.join(", ");
            let text = format!("{current} of {seen} know, not yet: {behind}");
            (Tone::Warning, text)
        }
    }
}

/// One line of a list.
fn row(action: &Value) -> Vec<Cell> {
    let text = |name: &str| action[name].as_str().map(plain).unwrap_or_default();
    let target = match (&action["key"], &action["network"]) {
        (Value::Null, Value::String(network)) => plain(network),
        (Value::Null, _) => String::new(),
        (key, _) => keys::format_value("key", key),
    };
    let change = ["status", "multiply", "tier", "quota", "shadow"]
        .iter()
        .find(|name| !action[**name].is_null())
        .map(|name| format!("{name} {}", keys::format_value(name, &action[*name])));
    let left = action["expires_in_ms"].as_u64().map(numbers::length);
    let ignored = action["ignored"].as_str();
    let ignored = ignored.map(|reason| format!("ignored: {}", plain(reason)));

    vec![
        (Tone::Dim, text("id")),
        (Tone::Name, text("limit")),
        (Tone::Plain, target),
        (Tone::Plain, change.unwrap_or_default()),
        (Tone::Plain, left.unwrap_or_default()),
        (Tone::Plain, text("by")),
        (Tone::Plain, text("reason")),
        (Tone::Warning, ignored.unwrap_or_default()),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::terminal::without_colours;
    use super::*;

    #[test]
    fn an_action_is_one_line_of_a_list() {
        let action = json!({
            "id": "block-1", "kind": "block", "limit": "api", "status": 429,
            "key": [{"attribute": "client_ip", "value": "203.0.113.7", "hashed": false}],
            "expires_in_ms": 61_000, "by": "ann", "reason": "scraping",
        });
        let line = table(&[row(&action)], Align::Left).join("\n");
        assert_eq!(
            without_colours(&line).trim_end(),
            "block-1  api  client_ip = 203.0.113.7  status 429  1m 1s  ann  scraping"
        );
    }

    #[test]
    fn replicas_that_do_not_know_are_named() {
        let text = |agreement: Value| replicas(&agreement).1;
        let known = json!({"seen": 3, "current": 3, "behind": []});
        assert_eq!(text(known), "all 3 know");
        let behind = json!({"seen": 3, "current": 1, "behind": ["b", "c"]});
        assert_eq!(text(behind), "1 of 3 know, not yet: b, c");
        let alone = json!({"seen": 1, "current": 1, "behind": []});
        assert_eq!(text(alone), "this is the only one");
    }

    #[test]
    fn numbers_are_numbers_and_rates_are_text() {
        let numbers = ["capacity=5".to_owned(), "refill_rate=2/s".to_owned()];
        let body = numbers_body(&numbers).unwrap();
        assert_eq!(body, json!({"capacity": 5, "refill_rate": "2/s"}));
        assert!(numbers_body(&["5".to_owned()]).is_err());
    }
}
