//! The section "Stream from a language model".

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Extension;
use axum::body::{Body, Bytes};
use futures_core::Stream;
use tollgate::Limiter;
use tollgate_tower::{ActualCost, RateLimitLayer, by};

fn model_limits(limiter: &Limiter) -> RateLimitLayer {
    let api_key = by::header("x-api-key").or(by::client_address());
    RateLimitLayer::new(limiter, "requests", api_key.clone())
        .and("tokens", api_key.clone())
        .cost(|head| {
            head.header("x-max-tokens")
                .and_then(|value| value.parse().ok())
                .unwrap_or(500)
        })
        .settle_by_actual_cost()
        .and("in-flight", api_key)
}

/// The chunks of an answer. It reports what they have used so far.
struct MeteredChunks<S> {
    chunks: S,
    cost: ActualCost,
}

impl<S: Stream<Item = Chunk> + Unpin> Stream for MeteredChunks<S> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let chunk = ready!(Pin::new(&mut self.chunks).poll_next(context));
        Poll::Ready(chunk.map(|chunk| {
            self.cost.report("tokens", chunk.tokens_so_far).ok();
            Ok(chunk.text)
        }))
    }
}

async fn chat(Extension(cost): Extension<ActualCost>) -> Body {
    let chunks = run_model();
    Body::from_stream(MeteredChunks { chunks, cost })
}

/// What a model returns.
struct Chunk {
    text: Bytes,
    tokens_so_far: u64,
}

/// A model whose answer has three chunks of 300 tokens.
struct Model(u64);

fn run_model() -> Model {
    Model(0)
}

impl Stream for Model {
    type Item = Chunk;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Chunk>> {
        self.0 += 300;
        Poll::Ready((self.0 <= 900).then(|| Chunk {
            text: Bytes::from_static(b"Certainly! "),
            tokens_so_far: self.0,
        }))
    }
}

mod tests {
    use std::time::Duration;

    use axum::Router;
    use axum::body::to_bytes;
    use axum::routing::get as on_get;
    use http_body_util::BodyExt as _;
    use tollgate::{Limit, Rate};

    use super::super::{get, send};
    use super::*;

    const KEY: &[(&str, &str)] = &[("x-api-key", "ann")];

    fn limiter() -> Limiter {
        let minute = Duration::from_secs(60);
        Limiter::in_memory([
            Limit::fixed_window("requests", 60, minute),
            Limit::token_bucket("tokens", 2_000, Rate::per_day(1)),
            Limit::concurrency("in-flight", 2, minute),
        ])
        .expect("valid limits")
    }

    async fn remaining(limiter: &Limiter) -> [u64; 3] {
        let mut left = [0; 3];
        for (left, name) in left.iter_mut().zip(["requests", "tokens", "in-flight"]) {
            // The key of the header, not the client address.
            let peek = limiter.peek(name, "ann").cost(0);
            *left = peek.await.expect("a known limit").remaining();
        }
        left
    }

    #[tokio::test]
    async fn a_stream_is_charged_for_what_it_has_used() {
        let limiter = limiter();
        let app = Router::new()
            .route("/", on_get(chat))
            .layer(model_limits(&limiter));

        let response = send(&app, get("/", KEY)).await;
        assert_eq!(remaining(&limiter).await, [59, 1_500, 1]);
        let text = to_bytes(response.into_body(), 1_024).await.expect("a body");
        assert_eq!(text.as_ref(), b"Certainly! Certainly! Certainly! ");
        assert_eq!(remaining(&limiter).await, [59, 1_100, 2]);

        let mut half = send(&app, get("/", KEY)).await.into_body();
        assert!(half.frame().await.is_some());
        drop(half);
        assert_eq!(
            remaining(&limiter).await,
            [58, 800, 2],
            "the client disconnected after one chunk"
        );

        let greedy = [KEY, &[("x-max-tokens", "801")]].concat();
        assert_eq!(send(&app, get("/", &greedy)).await.status(), 429);
        assert_eq!(remaining(&limiter).await, [58, 800, 2], "all or nothing");
    }
}
