//! A store call in flight that other requests wait for.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// A store call in flight about one counter. At most as many requests wait for it as are in flight.
#[derive(Clone, Debug, Default)]
pub struct PendingCall {
    state: Arc<Mutex<CallState>>,
}

/// The shared state of a call and the requests that wait for it.
#[derive(Debug, Default)]
struct CallState {
    progress: CallProgress,
    /// The wakers of the requests that wait for the call.
    wakers: Vec<Waker>,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CallProgress {
    /// Its reply is expected soon.
    #[default]
    Expected,
    /// Its reply is late. It may still come, but no request waits for it.
    Overdue,
    /// It has ended, with or without a reply.
    Finished,
}

impl PendingCall {
    /// Marks the call as finished, with or without a reply, and wakes the requests that wait.
    pub(super) fn finish(&self) {
        self.advance(CallProgress::Finished);
    }

    /// Marks the call as overdue, and wakes the requests that wait.
    pub(super) fn mark_overdue(&self) {
        self.advance(CallProgress::Overdue);
    }

    /// Returns true when the reply is late.
    pub(super) fn is_overdue(&self) -> bool {
        self.state.lock().progress == CallProgress::Overdue
    }

    fn advance(&self, progress: CallProgress) {
        let wakers = {
            let mut state = self.state.lock();
            state.progress = progress;
            std::mem::take(&mut state.wakers)
        };
        // The lock is released before the wakers run.
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A future that is ready when the call is finished or overdue, and returns whether it is
    /// finished.
    pub fn completion(self) -> CallCompletion {
        CallCompletion {
            call: self,
            waker_index: None,
        }
    }

    /// Returns true when both are the same call.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }
}

/// Waits until a [`PendingCall`] is finished or overdue.
#[derive(Debug)]
pub struct CallCompletion {
    call: PendingCall,
    /// The index of this future's waker in the call's list, once it has been polled.
    waker_index: Option<usize>,
}

impl Future for CallCompletion {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let this = self.get_mut();
        let mut state = this.call.state.lock();
        if state.progress != CallProgress::Expected {
            return Poll::Ready(state.progress == CallProgress::Finished);
        }

        let waker = this
            .waker_index
            .and_then(|index| state.wakers.get_mut(index));
        if let Some(waker) = waker {
            waker.clone_from(context.waker());
        } else {
            this.waker_index = Some(state.wakers.len());
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}
