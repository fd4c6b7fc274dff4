//! `tollgate reserve`, `tollgate settle` and `tollgate cancel`: a cost that is known afterwards.

use serde_json::{Value, json};

use super::client::ClientArgs;
use super::decision::{self, DecisionKind};
use super::numbers::counted;
use super::outcome::{CommandResult, Exit, output};
use super::request::{RequestArgs, TokenCount, add_tokens, token_count};
use super::terminal::{Tone, plain};

/// Arguments of `tollgate reserve`.
#[derive(Clone, Debug, clap::Args)]
pub struct ReserveArgs {
    #[command(flatten)]
    request: RequestArgs,
    /// How long the reservation stays open, from 1ms to 1h [default: 60s]
    #[arg(long, value_name = "TIME")]
    ttl: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// Arguments of `tollgate settle`.
#[derive(Clone, Debug, clap::Args)]
pub struct SettleArgs {
    #[command(flatten)]
    reservation: ReservationArgs,
    /// What the work has cost, in units, for limits without `cost: { tokens: .. }`
    #[arg(
        long,
        value_name = "N",
        required_unless_present = "tokens",
        allow_negative_numbers = true
    )]
    actual: Option<u64>,
    /// The tokens that were used, by their kind, such as `output=1204`; may be repeated
    #[arg(long, value_name = "KIND=N", value_parser = token_count)]
    tokens: Vec<TokenCount>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// Arguments of `tollgate cancel`.
#[derive(Clone, Debug, clap::Args)]
pub struct CancelArgs {
    #[command(flatten)]
    reservation: ReservationArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// A reservation, and the service that knows it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReservationArgs {
    /// The `reservation` that `tollgate reserve` printed
    #[arg(value_name = "RESERVATION")]
    reservation: String,
    /// URL of the HTTP listener, with http or https; `http://` may be omitted
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
}

pub(crate) fn reserve(args: &ReserveArgs) -> CommandResult {
    let mut body = args.request.body()?;
    if let Some(ttl) = &args.ttl {
        body["ttl"] = ttl.clone().into();
    }
    let url = &args.request.url;
    decision::ask(DecisionKind::Reserve, url, &body, &args.client)
}

pub(crate) fn settle(args: &SettleArgs) -> CommandResult {
    let mut body = json!({});
    if let Some(actual) = args.actual {
        body["actual"] = actual.into();
    }
    add_tokens(&mut body, &args.tokens)?;
    let (reservation, client) = (&args.reservation, &args.client);
    end("/v1/settle", reservation, body, client, settled_line)
}

pub(crate) fn cancel(args: &CancelArgs) -> CommandResult {
    let (reservation, client) = (&args.reservation, &args.client);
    end("/v1/cancel", reservation, json!({}), client, cancelled_line)
}

/// Ends a reservation.
fn end(
    path: &'static str,
    args: &ReservationArgs,
    mut body: Value,
    client: &ClientArgs,
    line: impl FnOnce(&Value) -> String,
) -> CommandResult {
    body["reservation"] = args.reservation.clone().into();
    let response = decision::post(path, &args.url, &body, client)?;
    let answer = response.json().filter(|answer| answer["settled"] == true);
    let answer = answer.ok_or_else(|| decision::failure(&response, "settlement"))?;

    output(client.json, &answer, || vec![line(&answer)], Exit::Done)
}

const SETTLED: &str = "it was settled before, and nothing was changed";
const CANCELLED: &str = "it was cancelled before, and nothing was changed";

/// What became of a reservation that is settled, and why that changed nothing.
fn settled_line(answer: &Value) -> String {
    let line = settled_how(answer);
    match answer["warning"].as_str() {
        Some(warning) => format!("{line}; {}", Tone::Warning.paint(&plain(warning))),
        None => line,
    }
}

/// What became of a reservation that is settled. Members that the response lacks are left out, so
/// that services of other versions can be used too.
fn settled_how(answer: &Value) -> String {
    let settled = Tone::Good.paint("settled");
    let units = answer["charged"].as_u64();
    let units = units.map(|units| counted(units, "unit"));
    match (answer["reservation"].as_str(), units) {
        (Some("settled"), _) => format!("{settled}: {SETTLED}"),
        (Some("cancelled"), _) => Tone::Warning.paint(&format!("not settled: {CANCELLED}")),
        (Some("unknown"), Some(units)) => {
            let remark = "the reservation was not open, so the whole cost was charged";
            format!("{settled}: {units}; {}", Tone::Warning.paint(remark))
        }
        (_, Some(units)) => format!("{settled}: {units} charged for the whole call"),
        _ => settled,
    }
}

/// What became of a reservation that is cancelled.
fn cancelled_line(answer: &Value) -> String {
    let cancelled = Tone::Good.paint("cancelled");
    let remark = match answer["reservation"].as_str() {
        Some("settled") => return Tone::Warning.paint(&format!("not cancelled: {SETTLED}")),
        Some("cancelled") => CANCELLED,
        Some("unknown") => "the reservation was not open, and nothing was returned",
        _ => return cancelled,
    };
    format!("{cancelled}: {}", Tone::Warning.paint(remark))
}

#[cfg(test)]
mod tests {
    use super::super::terminal::without_colours;
    use super::*;

    #[test]
    fn the_line_says_what_became_of_the_reservation() {
        let answer = |reservation: &str, charged: u64| json!({"settled": true, "charged": charged, "reservation": reservation});
        for (answer, settled, cancelled) in [
            (
                answer("open", 5_727),
                "settled: 5,727 units charged for the whole call",
                "cancelled",
            ),
            (
                answer("settled", 0),
                "settled: it was settled before, and nothing was changed",
                "not cancelled: it was settled before, and nothing was changed",
            ),
            (
                answer("cancelled", 0),
                "not settled: it was cancelled before, and nothing was changed",
                "cancelled: it was cancelled before, and nothing was changed",
            ),
            (
                answer("unknown", 1),
                "settled: 1 unit; the reservation was not open, so the whole cost was charged",
                "cancelled: the reservation was not open, and nothing was returned",
            ),
            (json!({"settled": true}), "settled", "cancelled"),
            (
                json!({"settled": true, "charged": 1, "reservation": "open", "warning": "fixed"}),
                "settled: 1 unit charged for the whole call; fixed",
                "cancelled",
            ),
        ] {
            assert_eq!(without_colours(&settled_line(&answer)), settled);
            assert_eq!(without_colours(&cancelled_line(&answer)), cancelled);
        }
    }
}
