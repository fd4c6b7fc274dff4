//! `tollgate check`: one decision of a running service.
//!
//! Whoever asks wants to know whether to go on, so the exit code follows the decision and not the
//! status: a body that says `allowed` is a decision, also with status 503, where a limit's policy
//! refuses because the store is away. A 503 without one is no answer.

mod told;

use std::process::ExitCode;

use hyper::{Method, StatusCode};
use serde_json::{Map, Value};

use super::attributes::{AttributeArgs, Given};
use super::client::{Answer, Ask, ClientArgs, Target};
use super::terminal::Paint;
use super::{Exit, Failure, Printed, end};

/// What to ask, and whom.
#[derive(Clone, Debug, clap::Args)]
pub struct CheckArgs {
    /// The HTTP port of the service; http:// may be left out
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    #[command(flatten)]
    request: AttributeArgs,
    /// Ask this limit, whatever its conditions say, instead of all whose conditions hold; may be
    /// given several times
    #[arg(long = "limit", short, value_name = "NAME")]
    limits: Vec<String>,
    /// What the request costs; the limit's own cost if nothing is said
    #[arg(long, value_name = "N")]
    cost: Option<u64>,
    /// Only look, and consume nothing
    #[arg(long)]
    peek: bool,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn run(args: &CheckArgs) -> ExitCode {
    end(check(args), args.client.json)
}

fn check(args: &CheckArgs) -> Printed {
    let target = Target::parse(&args.url)?;
    let body = body(&args.request.read()?, args);
    let path = if args.peek { "/v1/peek" } else { "/v1/check" };
    let ask = Ask {
        method: Method::POST,
        path,
        token: None,
        body: body.to_string().into_bytes(),
    };
    let answer = target.ask(ask, args.client.timeout)?;
    let decision = decision(&answer)?;
    let exit = if is_allowed(&decision) == Some(true) {
        Exit::Done
    } else {
        Exit::Denied
    };
    let text = if args.client.json {
        format!("{decision}\n")
    } else {
        told::told(&decision, answer.status, args.peek, Paint::for_stdout())
    };
    Ok((text, exit))
}

fn body(given: &Given, args: &CheckArgs) -> Value {
    let attributes = given
        .iter()
        .map(|(name, value)| (name.to_string(), Value::from(value)));
    let mut body = Map::new();
    body.insert("attributes".to_owned(), Value::Object(attributes.collect()));
    if !args.limits.is_empty() {
        body.insert("limits".to_owned(), args.limits.clone().into());
    }
    if let Some(cost) = args.cost {
        body.insert("cost".to_owned(), cost.into());
    }
    Value::Object(body)
}

fn is_allowed(decision: &Value) -> Option<bool> {
    decision.get("allowed")?.as_bool()
}

/// The decision in an answer, or what the answer is instead.
fn decision(answer: &Answer) -> Result<Value, Failure> {
    let status = answer.status;
    if let Some(body) = answer.json().filter(|body| is_allowed(body).is_some()) {
        return Ok(body);
    }
    let detail = answer.detail();
    let is_ours_to_mend = status.is_client_error()
        && !matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
        );
    let failure = match detail {
        Some(detail) if is_ours_to_mend => Failure::wrong(format!(
            "the service refuses the request ({status}): {detail}"
        )),
        Some(detail) => {
            Failure::no_answer(format!("the service gave no decision ({status}): {detail}"))
        }
        None => Failure::no_answer(format!(
            "what came ({status}) is no decision; is this the HTTP port of tollgate serve?"
        )),
    };
    Err(failure.with(answer))
}
