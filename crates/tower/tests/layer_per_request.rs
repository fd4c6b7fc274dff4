//! A layer that is created for each request is detected. It has its own test binary, because the
//! count is per process.

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
struct WarningCount(Arc<AtomicU32>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for WarningCount {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        event.record(&mut self.clone());
    }
}

impl Visit for WarningCount {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "code" && value == "TG001" {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

#[test]
fn a_layer_per_request_is_logged_once() {
    let limiter =
        Limiter::in_memory([Limit::token_bucket("api", 1_000, Rate::per_second(1))]).unwrap();
    let layer = || RateLimitLayer::new(&limiter, "api", by::everyone());
    let hello = service_fn(|_: Request<()>| async {
        Ok::<_, std::convert::Infallible>(Response::new(
            http_body_util::Empty::<bytes::Bytes>::new(),
        ))
    });
    let send = |layer: RateLimitLayer| {
        let response = layer.layer(hello).oneshot(Request::new(()));
        drop(pollster::block_on(response));
    };
    let warnings = WarningCount::default();
    tracing::subscriber::with_default(
        tracing_subscriber::registry().with(warnings.clone()),
        || {
            let lasting = layer();
            for _ in 0..1_000 {
                send(lasting.clone());
                drop(layer());
            }
            assert_eq!(
                warnings.0.load(Relaxed),
                0,
                "a layer that lasts is right, and an unused one is harmless"
            );
            for _ in 0..1_000 {
                send(layer());
            }
        },
    );

    assert_eq!(warnings.0.load(Relaxed), 1);
}
