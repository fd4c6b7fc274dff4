//! The layer and its configuration.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Extensions, Response};
use tollgate::{Decision, Error, Limiter, Quota};
use tollgate_http::EnabledFields;
use tower_layer::Layer;

use crate::by::KeyExtractor;
use crate::limit::{LayerLimit, SettlementRule};
use crate::outgoing::OutgoingLayer;
use crate::policy::{LayerPolicy, LookupFn};
use crate::rejection::Rejection;
use crate::request_head::RequestHead;
use crate::response::ResponseHead;
use crate::service::RateLimit;

/// Rate limits the requests to a service.
///
/// A layer starts with one limit of a [`Limiter`] and its key. [`and`](Self::and) adds more limits;
/// a request is charged to all of them or to none. [`cost`](Self::cost), [`quota`](Self::quota),
/// [`when`](Self::when), [`refund_when`](Self::refund_when), [`settle`](Self::settle) and
/// [`settle_by_actual_cost`](Self::settle_by_actual_cost) configure the limit added last. The other
/// methods configure the whole layer.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
/// use tollgate_tower::{RateLimitLayer, by};
///
/// let limiter = Limiter::in_memory([
///     Limit::sliding_window("per-key", 100, Duration::from_secs(60)),
///     Limit::sliding_window("per-address", 1_000, Duration::from_secs(60)),
/// ])?;
/// let api_key = by::header("x-api-key").or(by::client_address());
/// let layer = RateLimitLayer::new(&limiter, "per-key", api_key)
///     .cost(|head| if head.path().starts_with("/search") { 5 } else { 1 })
///     .and("per-address", by::client_address())
///     .skip(|head| head.path() == "/healthz");
/// # let _ = layer;
/// # Ok::<(), tollgate::Error>(())
/// ```
///
/// If the limiter does not have the limit, the layer logs an error and rejects every request with
/// status 500, so that none passes unlimited by mistake. Use [`validate`](Self::validate) to get
/// the error at startup instead.
#[derive(Clone, Debug)]
pub struct RateLimitLayer {
    policy: Arc<LayerPolicy>,
}

impl RateLimitLayer {
    /// A layer that applies the limit with this name.
    pub fn new(limiter: &Limiter, limit: &str, key: impl KeyExtractor) -> Self {
        let mut policy = LayerPolicy::new(limiter);
        policy.add_limit(limit, key);
        Self {
            policy: Arc::new(policy),
        }
    }

    /// Adds a limit. A request must be allowed by all limits of the layer; if one denies it, none
    /// is charged.
    #[must_use]
    pub fn and(self, limit: &str, key: impl KeyExtractor) -> Self {
        self.configure(|policy| policy.add_limit(limit, key))
    }

    /// What a request costs under the limit added last; 1 by default. A request of cost 0 is
    /// checked but not charged.
    ///
    /// The length of a body is usually in the `Content-Length` header. If the cost depends on the
    /// body itself, add a [`ReadBodyLayer`](crate::ReadBodyLayer).
    #[must_use]
    pub fn cost(self, cost: impl Fn(&RequestHead<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.configure_last(|limit| limit.cost = Some(Arc::new(cost)))
    }

    /// The quota of a request under the limit added last, such as that of the caller's tier; `None`
    /// for the limit's own quota. It must have the algorithm and the window of the limit.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Rate, TokenBucket};
    /// use tollgate_tower::{RateLimitLayer, RequestHead, by};
    ///
    /// #[derive(Clone)]
    /// enum Tier { Free, Pro }
    ///
    /// let limiter = Limiter::in_memory([Limit::token_bucket("plan", 10, Rate::per_second(1))])?;
    /// let pro = TokenBucket::new(1_000, Rate::per_second(100))?;
    /// let layer = RateLimitLayer::new(&limiter, "plan", by::client_address())
    ///     .quota(move |head: &RequestHead<'_>| match head.extensions().get()? {
    ///         Tier::Free => None,
    ///         Tier::Pro => Some(pro.into()),
    ///     });
    /// # let _ = layer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn quota(
        self,
        quota: impl Fn(&RequestHead<'_>) -> Option<Quota> + Send + Sync + 'static,
    ) -> Self {
        self.configure_last(|limit| limit.quota = Some(Arc::new(quota)))
    }

    /// Applies the limit added last only to requests for which the function returns true.
    #[must_use]
    pub fn when(self, applies: impl Fn(&RequestHead<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.configure_last(|limit| limit.when = Some(Arc::new(applies)))
    }

    /// Refunds a request to the limit added last if the function returns true for its response.
    ///
    /// Use [`response::succeeded`](crate::response::succeeded) to count only failures, such as
    /// wrong passwords, and [`response::failed`](crate::response::failed) not to charge for errors
    /// of the server. A gRPC call is judged by its final status.
    #[must_use]
    pub fn refund_when(
        self,
        is_free: impl Fn(&ResponseHead<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.configure_last(|limit| limit.refund_when = Some(Arc::new(is_free)))
    }

    /// Makes the [`cost`](Self::cost) of the limit added last an estimate. The function computes
    /// the actual cost from the response, or from a service error; `None` leaves the estimate.
    ///
    /// The estimate is reserved: at most [`Limit::reservation_max`] of the limit, half of it by
    /// default. The actual cost is always charged in full. What was reserved too much is returned;
    /// what was reserved too little makes the counter owe units, up to [`Limit::debt_max`], and
    /// requests are denied until the debt is paid. An estimate should be at least 1, because a
    /// request of cost 0 is admitted in any case.
    ///
    /// If the store is unavailable at admission, the limit's failure policy decides, and the actual
    /// cost is charged when it is known. If the store is unavailable then, the call is repeated in
    /// the background for 51 seconds, without charging anything twice. If it still fails, the limit
    /// stays at the estimate, or without it if
    /// [`Limit::on_reservation_expiry`] says so; a warning is logged, and
    /// `tollgate_failed_settlements_total` counts it. The same happens without repetition beyond
    /// 10,000 calls that wait for the store.
    ///
    /// [`Limit::reservation_max`]: tollgate::Limit::reservation_max
    /// [`Limit::debt_max`]: tollgate::Limit::debt_max
    /// [`Limit::on_reservation_expiry`]: tollgate::Limit::on_reservation_expiry
    #[must_use]
    pub fn settle(
        self,
        cost: impl Fn(&ResponseHead<'_>) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        self.configure_last(|limit| limit.settle = SettlementRule::ByResponse(Arc::new(cost)))
    }

    /// Like [`settle`](Self::settle), for a cost that the application reports itself, through the
    /// [`ActualCost`](crate::ActualCost) in the request's extensions.
    ///
    /// | the request | costs |
    /// |---|---|
    /// | response body ends, or is dropped half way | the cost reported last, or else the estimate |
    /// | handler is dropped or panics | the cost reported last, or else the estimate |
    /// | error: no response, a status of 400 or above, a gRPC status other than `OK` | the cost reported last, or else 0 |
    /// | free by [`refund_when`](Self::refund_when) | 0, whatever is reported |
    ///
    /// A handler that is dropped may have done its work. If it has not, let it report 0 first.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::convert::Infallible;
    /// use std::time::Duration;
    /// use http::{Request, Response};
    /// use http_body_util::Full;
    /// use tollgate::{Limit, Limiter};
    /// use tollgate_tower::{ActualCost, RateLimitLayer, by};
    /// use tower::{Layer, ServiceExt as _, service_fn};
    ///
    /// let limiter = Limiter::in_memory([
    ///     Limit::sliding_window("tokens", 1_000, Duration::from_secs(60)),
    /// ])?;
    /// let layer = RateLimitLayer::new(&limiter, "tokens", by::everyone())
    ///     .cost(|_| 300)
    ///     .settle_by_actual_cost();
    /// let service = layer.layer(service_fn(|request: Request<()>| async move {
    ///     let cost = request.extensions().get::<ActualCost>().cloned().unwrap_or_default();
    ///     cost.report("tokens", 120).ok();
    ///     Ok::<_, Infallible>(Response::new(Full::<bytes::Bytes>::from("...")))
    /// }));
    ///
    /// let Ok(response) = service.oneshot(Request::new(())).await;
    /// assert_eq!(limiter.peek("tokens", ()).cost(0).await?.remaining(), 700);
    /// drop(response);
    /// assert_eq!(limiter.peek("tokens", ()).cost(0).await?.remaining(), 880);
    /// # Ok::<(), tollgate::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn settle_by_actual_cost(self) -> Self {
        self.configure_last(|limit| limit.settle = SettlementRule::ByActualCost)
    }

    /// How long estimates wait for the actual cost: from a millisecond to an hour, by default 10
    /// minutes. Choose more than the longest response takes. After that,
    /// [`Limit::on_reservation_expiry`](tollgate::Limit::on_reservation_expiry) decides whether the
    /// estimate stays charged, and the actual cost is charged in addition.
    #[must_use]
    pub fn reservation_ttl(self, ttl: Duration) -> Self {
        self.configure(|policy| policy.reservation_ttl = ttl)
    }

    /// An allow list: requests for which the function returns true are admitted without being
    /// counted. To list paths by a pattern, require that
    /// [all readings](RequestHead::path_readings) of the path match it.
    #[must_use]
    pub fn skip(
        self,
        is_listed: impl Fn(&RequestHead<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.configure(|policy| policy.lists_mut().skip.push(Arc::new(is_listed)))
    }

    /// A deny list: requests for which the function returns true are rejected with status 403
    /// without being counted. The deny list takes precedence over [`skip`](Self::skip).
    #[must_use]
    pub fn deny(
        self,
        is_listed: impl Fn(&RequestHead<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.configure(|policy| policy.lists_mut().deny.push(Arc::new(is_listed)))
    }

    /// Looks up something about a request before the limits are checked, such as the user of a
    /// token.
    ///
    /// The result becomes an extension of the request, for keys
    /// ([`by::extension`](crate::by::extension)), quotas, costs and the application itself. If the
    /// result is `None`, keys that need it apply their fallback.
    ///
    /// ```
    /// use http::StatusCode;
    /// use tollgate::{Limit, Limiter, Rate};
    /// use tollgate_tower::{RateLimitLayer, RequestHead, by};
    ///
    /// #[derive(Clone)]
    /// struct User { id: u64 }
    ///
    /// async fn find_user(token: String) -> Option<User> {
    ///     (token == "t-1").then_some(User { id: 1 }) // usually a database query
    /// }
    ///
    /// let limiter = Limiter::in_memory([Limit::token_bucket("api", 100, Rate::per_second(10))])?;
    /// let user = by::extension(|user: &User| user.id).or_reject(StatusCode::UNAUTHORIZED);
    /// let layer = RateLimitLayer::new(&limiter, "api", user).look_up(|head: &RequestHead<'_>| {
    ///     let token = head.header("authorization").map(str::to_owned);
    ///     async move { find_user(token?).await }
    /// });
    /// # let _ = layer;
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn look_up<T, F>(
        self,
        look_up: impl Fn(&RequestHead<'_>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        T: Clone + Send + Sync + 'static,
        F: Future<Output = Option<T>> + Send + 'static,
    {
        let look_up: LookupFn = Arc::new(move |head| {
            let value = look_up(head);
            Box::pin(async move {
                let mut extensions = Extensions::new();
                value.await.and_then(|value| extensions.insert(value));
                extensions
            })
        });
        self.configure(|policy| policy.lookups.push(look_up))
    }

    /// Lets a request wait for up to `max_wait` until the limits admit it. A request that would
    /// have to wait longer is rejected without waiting.
    ///
    /// By default only queue limits make requests wait, up to the length of the queue. If the
    /// client disconnects, its position in the queue becomes free.
    #[must_use]
    pub fn wait_up_to(self, max_wait: Duration) -> Self {
        self.configure(|policy| policy.max_wait = Some(max_wait))
    }

    /// Which rate limit fields to add to responses; by default those of no vendor's API.
    #[must_use]
    pub fn fields(self, fields: EnabledFields) -> Self {
        self.configure(|policy| policy.fields = Some(fields))
    }

    /// Replaces the response to rejected requests. The function may call
    /// [`Rejection::to_response`] for the default response.
    #[must_use]
    pub fn respond_with(
        self,
        respond: impl Fn(&Rejection<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.configure(|policy| policy.respond = Some(Arc::new(respond)))
    }

    /// Calls a function for every request that the limits allow.
    #[must_use]
    pub fn on_allowed(
        self,
        hook: impl Fn(&RequestHead<'_>, &Decision) + Send + Sync + 'static,
    ) -> Self {
        self.configure(|policy| policy.hooks.allowed.push(Arc::new(hook)))
    }

    /// Calls a function for every request that a limit denies.
    #[must_use]
    pub fn on_denied(
        self,
        hook: impl Fn(&RequestHead<'_>, &Decision) + Send + Sync + 'static,
    ) -> Self {
        self.configure(|policy| policy.hooks.denied.push(Arc::new(hook)))
    }

    /// Calls a function for every decision that was made by a failure policy because the store was
    /// unavailable. It is called after the hooks for allowed or denied requests.
    #[must_use]
    pub fn on_degraded(
        self,
        hook: impl Fn(&RequestHead<'_>, &Decision) + Send + Sync + 'static,
    ) -> Self {
        self.configure(|policy| policy.hooks.degraded.push(Arc::new(hook)))
    }

    /// Returns the layer, or an error if the limiter does not have one of its limits or the
    /// [`reservation_ttl`](Self::reservation_ttl) is out of range.
    pub fn validate(self) -> Result<Self, Error> {
        match self.policy.error() {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// Applies the same limits to the calls that a client makes. A call waits as long as
    /// [`wait_up_to`](Self::wait_up_to) allows. If it is still denied, it fails without being made.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter, Rate};
    /// use tollgate_tower::{RateLimitLayer, by};
    ///
    /// // The partner allows 10 calls per second; ours wait for up to 30 seconds.
    /// let limiter = Limiter::in_memory([Limit::queue("partner", 300, Rate::per_second(10))])?;
    /// let layer = RateLimitLayer::new(&limiter, "partner", by::everyone())
    ///     .wait_up_to(Duration::from_secs(30))
    ///     .outgoing();
    /// # let _ = layer;
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn outgoing(self) -> OutgoingLayer {
        let layer = self.configure(|policy| policy.fields = None);
        OutgoingLayer {
            policy: layer.policy,
        }
    }

    fn configure(mut self, change: impl FnOnce(&mut LayerPolicy)) -> Self {
        let policy = Arc::make_mut(&mut self.policy);
        change(policy);
        policy.prepare_fields();
        self
    }

    /// Changes the limit added last. There is none only if the first limit was invalid; then every
    /// request is rejected anyway.
    fn configure_last(self, change: impl FnOnce(&mut LayerLimit)) -> Self {
        self.configure(|policy| {
            if let Some(limit) = policy.limits.last_mut() {
                change(limit);
            }
        })
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, self.policy.clone())
    }
}
