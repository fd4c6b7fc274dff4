//! The server-side middleware.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderValue};
use http::{Request, Response};
use http_body::Body;
use tollgate_http::Fields;
use tower_service::Service;

use crate::admission::{SyncAdmission, admit, try_admit};
use crate::future::{BoxedResponse, RateLimitFuture, take_ready};
use crate::limit::OwnedDemand;
use crate::policy::{AdmissionPath, LayerPolicy};
use crate::rejection::{Rejection, RejectionCause};
use crate::request_head::RequestHead;
use crate::response_body::ResponseBody;

/// A service whose requests are rate limited. Created by
/// [`RateLimitLayer`](crate::RateLimitLayer).
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    policy: Arc<LayerPolicy>,
    path: AdmissionPath,
}

impl<S> RateLimit<S> {
    pub(crate) fn new(inner: S, policy: Arc<LayerPolicy>) -> Self {
        let path = policy.path();
        Self {
            inner,
            policy,
            path,
        }
    }

    /// The inner service.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S, R, B> Service<Request<R>> for RateLimit<S>
where
    S: Service<Request<R>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    R: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<ResponseBody<B>>;
    type Error = S::Error;
    type Future = RateLimitFuture<S::Future, B, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<R>) -> Self::Future {
        // The fast path needs neither an allocation nor a clone of the service.
        match try_admit(&self.policy, self.path, &mut request) {
            SyncAdmission::Complete(Ok(task)) => {
                RateLimitFuture::admitted(self.inner.call(request), task)
            }
            SyncAdmission::Complete(Err(cause)) => {
                let response = reject(&self.policy, &request, &cause);
                RateLimitFuture::boxed(Box::pin(std::future::ready(Ok(response))))
            }
            SyncAdmission::Incomplete(demand) => {
                let inner = take_ready(&mut self.inner);
                RateLimitFuture::boxed(wait(self.policy.clone(), inner, request, demand))
            }
        }
    }
}

/// The response to a request that is not decided yet. A function of its own, to keep the path of
/// other requests short.
#[inline(never)]
fn wait<S, R, B>(
    policy: Arc<LayerPolicy>,
    mut inner: S,
    mut request: Request<R>,
    demand: Option<OwnedDemand>,
) -> BoxedResponse<B, S::Error>
where
    S: Service<Request<R>, Response = Response<B>> + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    R: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
{
    Box::pin(async move {
        match admit(&policy, &mut request, demand).await {
            Ok(task) => RateLimitFuture::admitted(inner.call(request), task).await,
            Err(cause) => Ok(reject(&policy, &request, &cause)),
        }
    })
}

/// The response to a rejected request.
#[inline(never)]
fn reject<R, B>(
    policy: &LayerPolicy,
    request: &Request<R>,
    cause: &RejectionCause,
) -> Response<ResponseBody<B>> {
    policy.monitor.record_rejection(cause);
    let rejection = Rejection::new(RequestHead::new(request), cause);
    let mut response = match &policy.respond {
        Some(respond) => respond(&rejection),
        None => rejection.to_response(),
    };

    let headers = response.headers_mut();
    // The same request may be allowed a moment later, so caches must not store this response.
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    if let (Some(decision), Some(enabled)) = (cause.decision(), policy.fields) {
        Fields::new(decision, enabled, policy.limiter.clock().now()).add_to(headers);
    }
    response.map(ResponseBody::from_rejection)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use http::StatusCode;
    use http::header::RETRY_AFTER;
    use http_body_util::Full;
    use tollgate::{Limit, Limiter};
    use tollgate_http::EnabledFields;
    use tower::{Layer as _, ServiceExt as _, service_fn};

    use super::*;
    use crate::{RateLimitLayer, by};

    /// The statuses of three requests under a limit of two, and when to retry the last.
    fn statuses(path: AdmissionPath) -> (Vec<StatusCode>, Option<HeaderValue>) {
        let minute = Duration::from_secs(60);
        let limiter = Limiter::in_memory([Limit::sliding_log("api", 2, minute)]).unwrap();
        let silent = EnabledFields {
            ietf: false,
            legacy: false,
            ..EnabledFields::default()
        };
        let hello = service_fn(|_: Request<()>| async {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        });
        let layer = RateLimitLayer::new(&limiter, "api", by::everyone()).fields(silent);
        let mut service = layer.layer(hello);
        service.path = path;

        let responses: Vec<_> = (0..3)
            .map(|_| {
                let call = service.clone().oneshot(Request::new(()));
                let Ok(response) = pollster::block_on(call);
                response
            })
            .collect();
        let retry_after = responses[2].headers().get(RETRY_AFTER).cloned();
        let statuses = responses.iter().map(Response::status).collect();
        (statuses, retry_after)
    }

    #[test]
    fn every_path_charges_a_request_once_and_gives_the_details_of_a_denial() {
        use AdmissionPath::{Decision, State, Verdict, Waiting};
        for path in [Waiting, Decision, State, Verdict] {
            let (statuses, retry_after) = statuses(path);
            assert_eq!(
                statuses,
                [
                    StatusCode::OK,
                    StatusCode::OK,
                    StatusCode::TOO_MANY_REQUESTS
                ]
            );
            assert_eq!(retry_after.unwrap(), "60", "{path:?}");
        }
    }
}
