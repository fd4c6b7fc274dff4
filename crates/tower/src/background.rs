//! Limiter calls whose result no request waits for.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::observe::log;

/// Starts a refund or a release by polling it once. The limiter completes these calls even if their
/// future is dropped.
pub(crate) fn poll_once<T>(call: impl Future<Output = T>) {
    let _ = pin!(call)
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_ready();
}

/// Runs a call of several steps in the background. What needs no waiting is done when this returns,
/// which is all of it on a memory store. The rest runs on the Tokio runtime, if there is one.
pub(crate) fn run(call: impl Future<Output = Result<(), tollgate::Error>> + Send + 'static) {
    let mut call = Box::pin(async {
        if let Err(error) = call.await {
            log::background_failure(&error);
        }
    });

    let mut context = Context::from_waker(Waker::noop());
    if let Poll::Pending = call.as_mut().poll(&mut context)
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        drop(runtime.spawn(call));
    }
}
