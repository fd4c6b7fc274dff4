//! A trip to the store that others wait for.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// A trip under way about one counter. As many wait for it as there are requests in flight.
#[derive(Clone, Debug, Default)]
pub struct PendingCall {
    landing: Arc<Mutex<CallState>>,
}

#[derive(Debug, Default)]
struct CallState {
    has_landed: bool,
    waiting: Vec<Waker>,
}

impl PendingCall {
    /// The answer has come, or will not.
    pub(super) fn land(&self) {
        let waiting = {
            let mut landing = self.landing.lock();
            landing.has_landed = true;
            std::mem::take(&mut landing.waiting)
        };
        // Nothing is locked while they are woken.
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits until it has landed.
    pub fn completion(self) -> CallCompletion {
        CallCompletion {
            flight: self,
            place: None,
        }
    }

    /// True when both are the same trip.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.landing, &other.landing)
    }
}

/// Waits for a [`PendingCall`] to land.
#[derive(Debug)]
pub struct CallCompletion {
    flight: PendingCall,
    /// Where our waker stands among those who wait.
    place: Option<usize>,
}

impl Future for CallCompletion {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let mut landing = this.flight.landing.lock();
        if landing.has_landed {
            return Poll::Ready(());
        }
        if let Some(waker) = this.place.and_then(|place| landing.waiting.get_mut(place)) {
            waker.clone_from(context.waker());
        } else {
            this.place = Some(landing.waiting.len());
            landing.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}
