//! The section "By user, with tiers".

use axum::http::StatusCode;
use tollgate::{LimitError, Limiter, Rate, TokenBucket};
use tollgate_tower::{RateLimitLayer, RequestHead, by};

#[derive(Clone)]
struct User {
    id: u64,
    tier: Tier,
}

#[derive(Clone, Copy)]
enum Tier {
    Free,
    Pro,
}

fn per_user(limiter: &Limiter) -> Result<RateLimitLayer, LimitError> {
    let user = by::extension(|user: &User| user.id).or_reject(StatusCode::UNAUTHORIZED);

    let pro = TokenBucket::new(1_000, Rate::per_second(100))?;
    let quota = move |head: &RequestHead<'_>| match head.extensions().get::<User>()?.tier {
        Tier::Free => None, // the limit's own quota
        Tier::Pro => Some(pro.into()),
    };

    Ok(RateLimitLayer::new(limiter, "plan", user).quota(quota))
}

mod lookup;
