//! A client that keeps to the rate limit of a partner. Calls wait in a queue; a call that would
//! have to wait too long fails without being made.
//!
//! Start any server on port 3000, then run
//! `cargo run -p tollgate-tower --example reqwest_client -- http://127.0.0.1:3000/`.

use std::time::Duration;
use std::{env, error};

use bytes::Bytes;
use http::{Request, Response};
use tollgate::{Limit, Limiter, Rate};
use tollgate_tower::{OutgoingError, RateLimitLayer, ResponseBody, by};
use tower::util::BoxCloneService;
use tower::{Layer as _, ServiceExt as _, service_fn};

/// A rate limited client for the partner's API.
pub(crate) type PartnerClient = BoxCloneService<
    Request<Bytes>,
    Response<ResponseBody<reqwest::Body>>,
    OutgoingError<reqwest::Error>,
>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn error::Error>> {
    let url = env::args()
        .nth(1)
        .unwrap_or_else(|| "http://127.0.0.1:3000/".to_owned());

    // Two calls per second: the last of ten calls would wait for 4.5 seconds, which is too long.
    let client = partner_client(Rate::per_second(2), Duration::from_secs(3));
    let mut calls = Vec::new();
    for _ in 0..10 {
        let request = Request::get(&url).body(Bytes::new())?;
        calls.push(tokio::spawn(client.clone().oneshot(request)));
    }

    for call in calls {
        match call.await? {
            Ok(response) => println!("{}", response.status()),
            Err(error) => println!("{error}"),
        }
    }
    Ok(())
}

/// A client that makes calls at this rate. A call that would have to wait longer than `max_wait`
/// fails; with zero, no call waits.
pub(crate) fn partner_client(rate: Rate, max_wait: Duration) -> PartnerClient {
    let limiter = Limiter::in_memory([Limit::queue("partner", 100, rate)]).expect("valid limits");
    let layer = RateLimitLayer::new(&limiter, "partner", by::everyone())
        .wait_up_to(max_wait)
        .outgoing();

    // Converts between the types of `http` and those of reqwest.
    let client = reqwest::Client::new();
    let service = service_fn(move |request: Request<Bytes>| {
        let client = client.clone();
        async move {
            client
                .execute(request.try_into()?)
                .await
                .map(Response::from)
        }
    });
    BoxCloneService::new(layer.layer(service))
}
