//! One store call, followed through redirections to the server that owns its slot.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Inner;
use crate::endpoint::Address;
use crate::error::{CallError, ServerError};
use crate::link::{CallResult, ServerLink};
use crate::topology::ServerTopology;
use crate::wire::StoreCall;

/// A call that has been submitted to the link of its server.
#[derive(Debug)]
pub(super) struct RoutedCall {
    inner: Arc<Inner>,
    call: Arc<StoreCall>,
    deadline: Instant,
    submission: Submission,
}

/// The pending result of a submitted call, or the error if the link did not accept the call.
type Submission = Result<oneshot::Receiver<CallResult>, CallError>;

impl RoutedCall {
    /// Submits the call to the link of the server that should own its slot.
    pub(super) fn start(inner: Arc<Inner>, call: StoreCall, deadline: Instant) -> Self {
        let call = Arc::new(call);
        let submission = inner
            .topology
            .link(call.slot)
            .and_then(|link| link.submit(call.clone(), deadline, false));

        if matches!(submission, Err(CallError::Unavailable(_))) {
            inner.request_refresh();
        }
        Self {
            inner,
            call,
            deadline,
            submission,
        }
    }

    /// Returns the call if the link accepted it, else the error.
    pub(super) fn accepted(self) -> Result<Self, CallError> {
        match self.submission {
            Err(error) => Err(error),
            submission @ Ok(_) => Ok(Self { submission, ..self }),
        }
    }

    /// Waits for the result. A call that was redirected, which has certainly not run, is sent to
    /// the other server.
    pub(super) async fn run(self) -> CallResult {
        let Self {
            inner,
            call,
            deadline,
            mut submission,
        } = self;
        let mut retries = inner.max_retries;

        loop {
            let error = match wait_for_result(submission).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };

            let next = match &error {
                CallError::Moved(address) => inner.redirect(address).map(|link| (link, false)),
                CallError::Ask(address) => inner.redirect(address).map(|link| (link, true)),
                CallError::TryAgain => {
                    let link = inner.topology.link(call.slot);
                    link.ok().map(|link| (link, false))
                }
                CallError::Unavailable(_) => {
                    inner.request_refresh();
                    None
                }
                CallError::Timeout | CallError::Overloaded | CallError::Refused(_) => None,
            };
            if next.is_none()
                && matches!(error, CallError::Moved(_))
                && !inner.topology.is_cluster()
            {
                return Err(CallError::Refused(ServerError::new(
                    "the server is part of a cluster: the store must be configured as a cluster",
                )));
            }

            let Some((link, is_asking)) = next.filter(|_| retries > 0 && Instant::now() < deadline)
            else {
                return Err(error);
            };
            retries -= 1;
            submission = link.submit(call.clone(), deadline, is_asking);
        }
    }
}

impl Inner {
    /// The link to the server that a redirection names. Requests a refresh of the slot map, which
    /// must be out of date. `None` outside of a cluster.
    fn redirect(&self, address: &Address) -> Option<Arc<ServerLink>> {
        match &self.topology {
            ServerTopology::Single(_) => None,
            ServerTopology::Cluster(cluster) => {
                cluster.request_refresh();
                cluster.link_to(address)
            }
        }
    }

    /// Requests a refresh of the slot map: another server may have taken over from one that is
    /// unavailable.
    fn request_refresh(&self) {
        if let ServerTopology::Cluster(cluster) = &self.topology {
            cluster.request_refresh();
        }
    }
}

async fn wait_for_result(submission: Submission) -> CallResult {
    // A link that is dropped drops the senders of its calls.
    submission?.await.unwrap_or_else(|_| {
        let error = ServerError::new("the connection was closed by this instance");
        Err(CallError::Unavailable(error))
    })
}

/// Waits for a task. Tasks are never aborted, so a join error means that the runtime shuts down.
pub(super) async fn join<T>(task: JoinHandle<Result<T, CallError>>) -> Result<T, CallError> {
    task.await.unwrap_or_else(|_| {
        let error = ServerError::new("the runtime is shutting down");
        Err(CallError::Unavailable(error))
    })
}
