//! Work that nobody waits for.

use std::pin::pin;
use std::task::{Context, Waker};

/// Starts a refund or a release, which take effect even when nobody waits for their answer.
pub(crate) fn unheard<T>(work: impl Future<Output = T>) {
    let _ = pin!(work)
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_ready();
}

/// Does work that takes several steps, beside whatever goes on: on the runtime if there is one,
/// else as far as it comes at once, which for a memory store is to the end.
pub(crate) fn to_the_end(work: impl Future<Output = Result<(), tollgate::Error>> + Send + 'static) {
    let work = async {
        if let Err(error) = work.await {
            tracing::debug!(%error, "the limiter could not be told of a change after the fact");
        }
    };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(work)),
        Err(_) => unheard(work),
    }
}
