//! `/v1/batch`: many operations in one request, each answered as by its own path.

use std::borrow::Cow;
use std::future::poll_fn;
use std::task::Poll;

use serde_json::value::RawValue;
use tollgate::Decision;
use tollgate_http::Fields;

use super::error::ApiError;
use super::json::{BodyText, JsonBody};
use super::operation::{Answer, ApiContext, ApiOperation};

/// The most requests of a batch.
const REQUESTS_MAX: usize = 256;
/// The space that an answer of a batch usually takes, in bytes.
const ANSWER_CAPACITY: usize = 256;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody<'b> {
    #[serde(borrow)]
    requests: Vec<&'b RawValue>,
    /// Whether the answers have the header fields that their own paths would send.
    headers: Option<bool>,
}

/// The member of a request that says what it asks for. All others belong to the operation.
#[derive(Debug, serde::Deserialize)]
struct BatchOperation<'b> {
    #[serde(borrow)]
    op: Option<BodyText<'b>>,
}

/// Carries out the operations of a body, and returns all their answers.
pub async fn batch(context: ApiContext<'_>, body: &[u8]) -> Result<Answer, ApiError> {
    let BatchBody { requests, headers } = JsonBody::new(body).decode()?;
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
    for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        context.gate.metrics().count_error(error.code);
    }
    let fields = headers.unwrap_or_default().then_some(context);
    Ok(Answer::done(encode(&answers, fields)))
}

/// The statuses and bodies of all requests, with their header fields if a context is given.
fn encode(answers: &[Result<Answer, ApiError>], fields: Option<ApiContext<'_>>) -> String {
    let mut text = String::with_capacity(ANSWER_CAPACITY * answers.len());
    text.push_str("{\"answers\":");
    let mut separator = '[';
    for answer in answers {
        let (status, body) = match answer {
            Ok(answer) => (answer.status, Cow::Borrowed(&*answer.body)),
            Err(error) => (error.status, error.problem().to_json().into()),
        };

        text.push(separator);
        text.extend(["{\"status\":", status.as_str(), ",\"body\":", &body]);
        let decision = answer
            .as_ref()
            .ok()
            .and_then(|answer| answer.decision.as_ref());
        if let (Some(decision), Some(context)) = (decision, fields) {
            write_fields(&mut text, decision, context);
        }
        text.push('}');
        separator = ',';
    }
    text.push_str("]}");
    text
}

/// Adds the member `headers` to the answer of a decision.
fn write_fields(text: &mut String, decision: &Decision, context: ApiContext<'_>) {
    let enabled = context.active.config.headers;
    text.push_str(",\"headers\":");
    let mut separator = '{';
    for (name, value) in Fields::new(decision, enabled, context.gate.now()) {
        // The fields are ASCII; names of limits are between quotes, which JSON escapes.
        let value = serde_json::Value::from(value.to_str().unwrap_or_default());
        text.push(separator);
        text.extend(["\"", &name.to_ascii_lowercase(), "\":", &value.to_string()]);
        separator = ',';
    }
    text.push_str(if separator == '{' { "{}" } else { "}" });
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
    let mut futures: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();

    poll_fn(|context| {
        let mut is_ready = true;
        for (future, output) in &mut futures {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *output = Some(value),
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
    futures
        .into_iter()
        .filter_map(|(_, output)| output)
        .collect()
}
