//! Limiter calls whose result no request waits for.

use std::pin::pin;
use std::task::{Context, Waker};

use crate::observe::log;

/// Starts a refund or a release by polling it once. The limiter completes these calls even if their
/// future is dropped.
pub(crate) fn poll_once<T>(call: impl Future<Output = T>) {
    let _ = pin!(call)
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_ready();
}

/// Runs a call of several steps in the background: on the Tokio runtime if there is one. Without a
/// runtime the call is polled once, which completes it on a memory store.
pub(crate) fn run(call: impl Future<Output = Result<(), tollgate::Error>> + Send + 'static) {
    let call = async {
        if let Err(error) = call.await {
            log::background_failure(&error);
        }
    };

    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(call)),
        Err(_) => poll_once(call),
    }
}
