//! Polls a future once.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The future's output if it is ready at its first poll.
pub(crate) fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
