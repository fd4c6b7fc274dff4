//! `/v1/batch`: many operations in one request, each answered as by its own path.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use hyper::body::Incoming;
use hyper::{Request, Response};
use serde_json::value::RawValue;

use super::api;
use super::body::{self, BodyText, JsonBody};
use super::error::ApiError;
use super::operation::{Answer, ApiContext, ApiOperation};
use super::respond::{self, Body};
use super::timing::ServerTiming;
use crate::listen::ClientConnection;

/// The most requests of a batch.
const REQUESTS_MAX: usize = 256;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody<'b> {
    #[serde(borrow)]
    requests: Vec<&'b RawValue>,
}

/// The member of a request that says what it asks for. All others belong to the operation.
#[derive(Debug, serde::Deserialize)]
struct BatchOperation<'b> {
    #[serde(borrow, default)]
    op: Option<BodyText<'b>>,
}

/// Reads the body, carries out all operations and encodes their answers.
pub(super) async fn handle(
    context: ApiContext<'_>,
    request: &mut Request<Incoming>,
    connection: &Arc<ClientConnection>,
) -> Result<Response<Body>, ApiError> {
    let mut timing = ServerTiming::start(context.gate, request.headers());
    let bytes = body::read(request, connection, api::body_limits(context.active)).await?;
    timing.end_step("body");
    let _slot = connection.try_slot().ok_or_else(ApiError::overloaded)?;

    let BatchBody { requests } = JsonBody::new(&bytes).decode()?;
    if !(1..=REQUESTS_MAX).contains(&requests.len()) {
        let found = requests.len();
        return Err(ApiError::unprocessable(
            "bad-batch",
            format!("`requests` has {found} requests; it must have 1 to {REQUESTS_MAX}"),
        ));
    }

    let answers = requests.iter().map(|request| answer(context, request));
    let answers = if context.active.decides_in_process() {
        in_turn(answers).await
    } else {
        all_at_once(answers).await
    };
    timing.end_step("decide");

    let mut response = respond::batch(&answers);
    timing.add_to(response.headers_mut());
    Ok(response)
}

/// Answers one request of a batch.
async fn answer(context: ApiContext<'_>, request: &RawValue) -> Result<Answer, ApiError> {
    let body = JsonBody::for_batch(request.get().as_bytes());
    let BatchOperation { op } = body.decode_with_op()?;
    let operation = ApiOperation::from_name(op.as_ref().map(|BodyText(name)| &**name))?;

    context
        .active
        .permit(context.caller, operation.permission())?;
    operation.answer(context, body).await
}

/// Awaits futures one after the other, for a store that never makes them wait.
async fn in_turn<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut outputs = Vec::with_capacity(REQUESTS_MAX);
    for future in futures {
        outputs.push(future.await);
    }
    outputs
}

/// Awaits futures together. Each is polled once, in their order, before any is polled again: what
/// they send to the store is sent in that order, and together.
async fn all_at_once<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<BatchFuture<F>> = futures
        .map(|future| BatchFuture::Pending(Box::pin(future)))
        .collect();

    poll_fn(|context| {
        let mut is_ready = true;
        for future in &mut futures {
            if let BatchFuture::Pending(pending) = future {
                match pending.as_mut().poll(context) {
                    Poll::Ready(output) => *future = BatchFuture::Ready(output),
                    Poll::Pending => is_ready = false,
                }
            }
        }
        if is_ready {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;

    let outputs = futures.into_iter().filter_map(|future| match future {
        BatchFuture::Ready(output) => Some(output),
        BatchFuture::Pending(_) => None,
    });
    outputs.collect()
}

/// A future, or what it returned.
enum BatchFuture<F: Future> {
    Pending(Pin<Box<F>>),
    Ready(F::Output),
}
