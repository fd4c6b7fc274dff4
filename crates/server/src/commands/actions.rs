//! `tollgate block`, `exempt`, `override` and `shadow`: act on a key or a limit through the admin port,
//! list what is in force, and undo it.

mod args;

use std::time::Duration;

use hyper::Method;
use serde_json::{Map, Value, json};

use self::args::{ActionArgs, ActionsCommand, AdminArgs, ListActionsArgs, RemoveActionArgs};
pub(crate) use self::args::{BlockArgs, ExemptArgs, OverrideArgs, ShadowArgs};
use super::admin_port::{self, Members, TOKEN_VARIABLE, escaped, format_value, label};
use super::numbers::length;
use super::outcome::{CommandError, CommandResult, Exit, invalid, output};
use super::terminal::{Align, Cell, Tone, plain, table};

/// The variables with the name of the user, for `--by`.
const USER_VARIABLES: [&str; 2] = ["USER", "LOGNAME"];

/// The longest to wait until all replicas know of a change. Within a second they do.
const WAIT: Duration = Duration::from_secs(2);

/// Runs `tollgate block`.
pub(crate) fn block(args: &BlockArgs) -> (CommandResult, bool) {
    let own = || {
        let mut body = args.target.body()?;
        body["status"] = json!(args.own.status);
        Ok(body)
    };
    run("blocks", args.command.as_ref(), &args.action, own)
}

/// Runs `tollgate exempt`.
pub(crate) fn exempt(args: &ExemptArgs) -> (CommandResult, bool) {
    let own = || args.target.body();
    run("exemptions", args.command.as_ref(), &args.action, own)
}

/// Runs `tollgate override`.
pub(crate) fn override_numbers(args: &OverrideArgs) -> (CommandResult, bool) {
    let own = || {
        let mut body = args.target.body()?;
        body["multiply"] = json!(args.own.multiply);
        body["tier"] = json!(args.own.tier);
        if !args.own.numbers.is_empty() {
            body["quota"] = numbers_body(&args.own.numbers)?;
        }
        Ok(body)
    };
    run("overrides", args.command.as_ref(), &args.action, own)
}

/// Runs `tollgate shadow`.
pub(crate) fn shadow(args: &ShadowArgs) -> (CommandResult, bool) {
    let own = || Ok(json!({ "shadow": !args.own.off }));
    run("shadows", args.command.as_ref(), &args.action, own)
}

/// The result, and whether it is printed as JSON.
fn run(
    plural: &str,
    command: Option<&ActionsCommand>,
    action: &ActionArgs,
    own: impl FnOnce() -> Result<Value, CommandError>,
) -> (CommandResult, bool) {
    let (admin, result) = match command {
        Some(ActionsCommand::List(args)) => (&args.admin, list(plural, args)),
        Some(ActionsCommand::Remove(args)) => (&args.admin, remove(plural, args)),
        None => (
            &action.admin,
            own().and_then(|own| act(plural, action, own)),
        ),
    };
    (result, admin.client.json)
}

/// Puts an action. `body` has the members of its kind; one that is not given is null.
fn act(plural: &str, args: &ActionArgs, mut body: Value) -> CommandResult {
    body["limit"] = json!(args.limit);
    body["for"] = json!(args.length);
    body["reason"] = json!(args.reason);
    body["by"] = json!(args.by.clone().unwrap_or_else(user));

    let path = format!("/admin/{plural}");
    args.admin.change(Method::POST, &path, Some(&body))
}

/// The name of the user, or the number where no variable has the name, as in cron jobs.
fn user() -> String {
    let mut names = USER_VARIABLES.iter();
    let name = names.find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    name.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

fn list(plural: &str, args: &ListActionsArgs) -> CommandResult {
    let query = args.limit.as_deref().map(escaped);
    let query = query.map(|limit| format!("?limit={limit}"));
    let path = format!("/admin/{plural}{}", query.unwrap_or_default());
    let response = args.admin.send(Method::GET, &path, None)?;

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
    let path = format!("/admin/{plural}/{}", escaped(&args.id));
    args.admin.change(Method::DELETE, &path, None)
}

impl AdminArgs {
    /// Sends a change, and waits until all replicas know of it: less than for the response as a
    /// whole.
    fn change(&self, method: Method, path: &str, body: Option<&Value>) -> CommandResult {
        let wait_ms = (self.client.timeout / 3).min(WAIT).as_millis();
        let path = format!("{path}?wait={wait_ms}ms");
        let response = self.send(method, &path, body)?;
        let text = || members(&response);
        output(self.client.json, &response, text, Exit::Done)
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Members, CommandError> {
        let variables = [TOKEN_VARIABLE];
        admin_port::send(&self.client, &self.admin, &variables, method, path, body)
    }
}

impl args::TargetArgs {
    fn body(&self) -> Result<Value, CommandError> {
        if let Some(network) = &self.network {
            return Ok(json!({ "network": network }));
        }
        let attributes = self.key.read()?;
        let key = attributes.iter();
        let key = key.map(|(attribute, value)| (attribute.name().to_owned(), json!(value)));
        Ok(json!({ "key": key.collect::<Members>() }))
    }
}

/// The numbers of an override: whole numbers as such, rates and times as text.
fn numbers_body(numbers: &[String]) -> Result<Value, CommandError> {
    let mut body = Map::new();
    for text in numbers {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            let reason = format!("--set: {text:?} has no `=`; expected one such as limit=500");
            invalid(reason)
        })?;
        let number = value.parse().map(|number: u64| json!(number));
        body.insert(name.to_owned(), number.unwrap_or_else(|_| json!(value)));
    }
    Ok(body.into())
}

/// The members of an action one per line.
fn members(action: &Members) -> Vec<String> {
    let shown = action.iter().filter(|(name, _)| !name.ends_with("_at_ms"));
    let rows = shown.map(|(name, value)| {
        let value_cell = match name.as_str() {
            "replicas" => replicas(value),
            _ => (Tone::Plain, format_value(name, value)),
        };
        vec![(Tone::Name, label(name, value)), value_cell]
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
        (key, _) => format_value("key", key),
    };
    let change = ["status", "multiply", "tier", "quota", "shadow"]
        .iter()
        .find(|name| !action[**name].is_null())
        .map(|name| format!("{name} {}", format_value(name, &action[*name])));
    let left = action["expires_in_ms"].as_u64().map(length);
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
