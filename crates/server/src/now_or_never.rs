//! Asking a future for what it has now.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// What a future gives at once, if it does.
pub(crate) fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
