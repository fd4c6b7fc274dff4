//! A layer that is made anew for each request is noticed. In a process of its own, because that is
//! what is counted by.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use http::{Request, Response};
use tollgate::{Limit, Limiter, Rate};
use tollgate_tower::{RateLimitLayer, by};
use tower::{Layer, ServiceExt as _, service_fn};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::SubscriberExt as _;

/// Counts the warnings of this code.
#[derive(Clone, Default)]
struct Told(Arc<AtomicU32>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Told {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        event.record(&mut self.clone());
    }
}

impl Visit for Told {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "code" && value == "TG001" {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

#[test]
fn a_layer_for_each_request_is_told_once() {
    let limiter = Limiter::in_memory([Limit::token_bucket("api", 1_000, Rate::per_second(1))]);
    let layer = || RateLimitLayer::new(&limiter, "api", by::everyone());
    let hello = service_fn(|_: Request<()>| async {
        Ok::<_, std::convert::Infallible>(Response::new(
            http_body_util::Empty::<bytes::Bytes>::new(),
        ))
    });
    let ask = |layer: RateLimitLayer| {
        drop(pollster::block_on(
            layer.layer(hello).oneshot(Request::new(())),
        ))
    };
    let told = Told::default();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(told.clone()), || {
        let lasting = layer();
        for _ in 0..1_000 {
            ask(lasting.clone());
            drop(layer());
        }
        assert_eq!(
            told.0.load(Relaxed),
            0,
            "a layer that lasts is right, and one that nobody uses does no harm"
        );
        for _ in 0..1_000 {
            ask(layer());
        }
    });
    assert_eq!(told.0.load(Relaxed), 1);
}
