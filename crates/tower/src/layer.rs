//! Putting a layer together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tollgate::headers::Fields;
use tollgate::{Decision, Error, Limiter, Quota};
use tower_layer::Layer;

use crate::answer::Refusal;
use crate::by::Subject;
use crate::head::Head;
use crate::outgoing::OutgoingLayer;
use crate::plan::{Attach, Cost, Plan, Recipe, Settle};
use crate::reply::Reply;
use crate::service::RateLimit;

/// Limits the requests that come to a service.
///
/// It begins with one limit of a [`Limiter`] and whom it counts for; [`and`](Self::and) adds
/// others, which pass together or not at all. [`cost`](Self::cost), [`quota`](Self::quota),
/// [`when`](Self::when), [`refund_when`](Self::refund_when), [`settle`](Self::settle) and
/// [`settle_by_bill`](Self::settle_by_bill) are about the limit named last, everything else about
/// the layer.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter};
/// use tollgate_tower::{RateLimitLayer, by};
///
/// let limiter = Limiter::in_memory([
///     Limit::sliding_window("per-key", 100, Duration::from_secs(60)),
///     Limit::sliding_window("per-address", 1_000, Duration::from_secs(60)),
/// ]);
/// let layer = RateLimitLayer::new(&limiter, "per-key", by::header("x-api-key").or(by::client_address()))
///     .cost(|head| if head.path().starts_with("/search") { 5 } else { 1 })
///     .and("per-address", by::client_address())
///     .skip(|head| head.path() == "/healthz");
/// # let _ = layer;
/// ```
///
/// A limit that the limiter does not know is logged, and every request is answered with status 500:
/// nothing passes unlimited by mistake. [`checked`](Self::checked) says so at the start instead.
#[derive(Clone)]
pub struct RateLimitLayer {
    plan: Arc<Plan>,
}

impl RateLimitLayer {
    /// A layer with one limit.
    pub fn new(limiter: &Limiter, limit: &str, subject: impl Subject) -> Self {
        let mut plan = Plan::new(limiter);
        plan.add(limit, subject);
        Self {
            plan: Arc::new(plan),
        }
    }

    /// Another limit that must let the request pass too. All pass, or none is charged.
    #[must_use]
    pub fn and(self, limit: &str, subject: impl Subject) -> Self {
        self.with(|plan| plan.add(limit, subject))
    }

    /// What a request costs the limit named last, instead of 1. Cost 0 only looks.
    ///
    /// The request's length is known from its headers; for a cost that depends on the body itself,
    /// see [`ReadBodyLayer`](crate::ReadBodyLayer).
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Head<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.last(|recipe| recipe.cost = Cost::Of(Arc::new(cost)))
    }

    /// Other numbers for the limit named last, such as those of the caller's tier; `None` for the
    /// limit's own. They must be of the limit's algorithm and window.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Rate, TokenBucket};
    /// use tollgate_tower::{Head, RateLimitLayer, by};
    ///
    /// #[derive(Clone)]
    /// enum Tier { Free, Pro }
    ///
    /// let limiter = Limiter::in_memory([Limit::token_bucket("plan", 10, Rate::per_second(1))]);
    /// let pro = TokenBucket::new(1_000, Rate::per_second(100))?;
    /// let layer = RateLimitLayer::new(&limiter, "plan", by::client_address())
    ///     .quota(move |head: &Head<'_>| match head.extensions().get()? {
    ///         Tier::Free => None,
    ///         Tier::Pro => Some(pro.into()),
    ///     });
    /// # let _ = layer;
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub fn quota(self, quota: impl Fn(&Head<'_>) -> Option<Quota> + Send + Sync + 'static) -> Self {
        self.last(|recipe| recipe.quota = Some(Arc::new(quota)))
    }

    /// Applies the limit named last only to requests for which this holds.
    #[must_use]
    pub fn when(self, applies: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.last(|recipe| recipe.when = Some(Arc::new(applies)))
    }

    /// Gives back to the limit named last what a request took when its response is like this:
    /// [`reply::succeeded`](crate::reply::succeeded) for limits on wrong passwords,
    /// [`reply::failed`](crate::reply::failed) so that nobody pays for the server's faults. A gRPC
    /// call is judged by its final status.
    #[must_use]
    pub fn refund_when(self, is_free: impl Fn(&Reply<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.last(|recipe| recipe.refund = Some(Arc::new(is_free)))
    }

    /// Makes the cost of [`cost`](Self::cost) an estimate: the limit named last is charged what the
    /// response says in the end, `None` for the estimate itself. Of what goes beyond the estimate,
    /// at most what is left is charged.
    #[must_use]
    pub fn settle(self, cost: impl Fn(&Reply<'_>) -> Option<u64> + Send + Sync + 'static) -> Self {
        self.last(|recipe| recipe.settle = Settle::Of(Arc::new(cost)))
    }

    /// The same for costs that the application tells while it answers, through the
    /// [`Bill`](crate::Bill) in the request's extensions. What it told last counts when the
    /// response's body ends, or when nobody waits for it any more.
    #[must_use]
    pub fn settle_by_bill(self) -> Self {
        self.last(|recipe| recipe.settle = Settle::ByBill)
    }

    /// Lets requests like this pass, uncounted: an allow list.
    #[must_use]
    pub fn skip(self, is_listed: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|plan| plan.skip.push(Arc::new(is_listed)))
    }

    /// Refuses requests like this with status 403, uncounted: a deny list. It goes before
    /// [`skip`](Self::skip).
    #[must_use]
    pub fn deny(self, is_listed: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|plan| plan.deny.push(Arc::new(is_listed)))
    }

    /// Finds something out before anything is decided, such as the user behind a token. It becomes
    /// an extension of the request, for keys ([`by::extension`](crate::by::extension)), tiers,
    /// costs and the application itself. Where nothing is found, the limits that need it say what
    /// happens.
    ///
    /// ```
    /// use http::StatusCode;
    /// use tollgate::{Limit, Limiter, Rate};
    /// use tollgate_tower::{Head, RateLimitLayer, by};
    ///
    /// #[derive(Clone)]
    /// struct User { id: u64 }
    ///
    /// async fn user_of(token: String) -> Option<User> {
    ///     (token == "t-1").then_some(User { id: 1 }) // a look into the database
    /// }
    ///
    /// let limiter = Limiter::in_memory([Limit::token_bucket("api", 100, Rate::per_second(10))]);
    /// let user = by::extension(|user: &User| user.id).or_refuse(StatusCode::UNAUTHORIZED);
    /// let layer = RateLimitLayer::new(&limiter, "api", user).look_up(|head: &Head<'_>| {
    ///     let token = head.header("authorization").map(str::to_owned);
    ///     async move { user_of(token?).await }
    /// });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn look_up<T, F>(self, find: impl Fn(&Head<'_>) -> F + Send + Sync + 'static) -> Self
    where
        T: Clone + Send + Sync + 'static,
        F: Future<Output = Option<T>> + Send + 'static,
    {
        self.with(|plan| {
            plan.look_up.push(Arc::new(move |head| {
                let finding = find(head);
                Box::pin(async move {
                    let found = finding.await;
                    let attach: Attach = Box::new(|extensions| {
                        drop(found.and_then(|found| extensions.insert(found)))
                    });
                    attach
                })
            }));
        })
    }

    /// Holds back a request that does not pass yet, up to so long. Without it only queues hold
    /// requests back, for as long as they are. A client that goes away gives its turn back.
    #[must_use]
    pub fn wait_up_to(self, longest: Duration) -> Self {
        self.with(|plan| plan.patience = Some(longest))
    }

    /// Which fields tell clients where they stand; by default all of them.
    #[must_use]
    pub fn fields(self, fields: Fields) -> Self {
        self.with(|plan| plan.fields = fields)
    }

    /// Answers those who do not pass with a response of one's own; [`Refusal::to_response`] makes
    /// the usual one.
    #[must_use]
    pub fn respond_with(
        self,
        respond: impl Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.with(|plan| plan.respond = Some(Arc::new(respond)))
    }

    /// Tells a function of every request that passes.
    #[must_use]
    pub fn on_allowed(self, hook: impl Fn(&Head<'_>, &Decision) + Send + Sync + 'static) -> Self {
        self.with(|plan| plan.hooks.allowed.push(Arc::new(hook)))
    }

    /// Tells a function of every request that a limit refuses.
    #[must_use]
    pub fn on_denied(self, hook: impl Fn(&Head<'_>, &Decision) + Send + Sync + 'static) -> Self {
        self.with(|plan| plan.hooks.denied.push(Arc::new(hook)))
    }

    /// Tells a function of every decision that the limits' failure policies made because the store
    /// was away, after the hooks for what was decided.
    #[must_use]
    pub fn on_degraded(self, hook: impl Fn(&Head<'_>, &Decision) + Send + Sync + 'static) -> Self {
        self.with(|plan| plan.hooks.degraded.push(Arc::new(hook)))
    }

    /// This layer, or what is wrong with it: a limit that the limiter does not know, or one that is
    /// wrong itself.
    pub fn checked(self) -> Result<Self, Error> {
        match self.plan.error() {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// The same limits for the calls that a client makes: they wait as long as
    /// [`wait_up_to`](Self::wait_up_to) says, and fail without being made when they still do not
    /// pass.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter, Rate};
    /// use tollgate_tower::{RateLimitLayer, by};
    ///
    /// // The partner takes 10 calls a second; ours wait for up to half a minute.
    /// let limiter = Limiter::in_memory([Limit::queue("partner", 300, Rate::per_second(10))]);
    /// let paced = RateLimitLayer::new(&limiter, "partner", by::everyone()).wait_up_to(Duration::from_secs(30)).outgoing();
    /// # let _ = paced;
    /// ```
    pub fn outgoing(self) -> OutgoingLayer {
        OutgoingLayer { plan: self.plan }
    }

    fn with(mut self, change: impl FnOnce(&mut Plan)) -> Self {
        change(Arc::make_mut(&mut self.plan));
        self
    }

    fn last(self, change: impl FnOnce(&mut Recipe)) -> Self {
        self.with(|plan| {
            if let Some(recipe) = plan.recipes.last_mut() {
                change(recipe);
            }
        })
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, self.plan.clone())
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RateLimitLayer").field(&self.plan).finish()
    }
}
