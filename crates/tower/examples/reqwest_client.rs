//! A client that keeps to what its partner allows: calls wait for their turn for so long, and fail
//! without being made when that would not be enough.
//!
//! `cargo run -p tollgate-tower --example reqwest_client -- http://127.0.0.1:3000/`, with any
//! server there.

use std::time::Duration;
use std::{env, error};

use bytes::Bytes;
use http::{Request, Response};
use tollgate::{Limit, Limiter, Rate};
use tollgate_tower::{OutgoingError, RateLimitLayer, ResponseBody, by};
use tower::util::BoxCloneService;
use tower::{Layer as _, ServiceExt as _, service_fn};

/// Calls to the partner, one at its turn.
pub(crate) type Partner = BoxCloneService<
    Request<Bytes>,
    Response<ResponseBody<reqwest::Body>>,
    OutgoingError<reqwest::Error>,
>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn error::Error>> {
    let url = env::args()
        .nth(1)
        .unwrap_or_else(|| "http://127.0.0.1:3000/".to_owned());
    // Two calls a second. The last of ten would wait for four and a half seconds, and three are
    // enough for us.
    let partner = partner(Rate::per_second(2), Duration::from_secs(3));
    let mut calls = Vec::new();
    for _ in 0..10 {
        let request = Request::get(&url).body(Bytes::new())?;
        calls.push(tokio::spawn(partner.clone().oneshot(request)));
    }
    for call in calls {
        match call.await? {
            Ok(response) => println!("{}", response.status()),
            Err(error) => println!("{error}"),
        }
    }
    Ok(())
}

/// A client whose calls leave at this rate. They fail rather than wait for longer than this; with
/// zero, none waits.
pub(crate) fn partner(rate: Rate, longest_wait: Duration) -> Partner {
    let limiter = Limiter::in_memory([Limit::queue("partner", 100, rate)]);
    let paced = RateLimitLayer::new(&limiter, "partner", by::everyone())
        .wait_up_to(longest_wait)
        .outgoing();
    let client = reqwest::Client::new();
    // What reqwest takes and gives has types of its own.
    let calls = service_fn(move |request: Request<Bytes>| {
        let client = client.clone();
        async move {
            client
                .execute(request.try_into()?)
                .await
                .map(Response::from)
        }
    });
    BoxCloneService::new(paced.layer(calls))
}
