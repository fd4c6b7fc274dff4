//! Store calls, sent to the server that owns their slot and followed through redirections.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::connector::Connector;
use crate::error::{CallError, ServerError};
use crate::layout::LayoutClaim;
use crate::link::{CallDeadline, CallResult};
use crate::topology::ServerTopology;
use crate::wire::{CallEncoder, StoreCall};

/// Sends store calls to the servers of a store.
pub(crate) struct CallRouter {
    pub(crate) topology: ServerTopology,
    pub(crate) encoder: CallEncoder,
    pub(crate) connector: Arc<Connector>,
    /// How often a call may be sent again after a redirection.
    pub(crate) max_retries: u32,
    /// Whether this instance may use the store.
    pub(crate) layout: LayoutClaim,
}

/// A call that has been submitted to the link of its server.
pub(crate) struct RoutedCall {
    router: Arc<CallRouter>,
    call: Arc<StoreCall>,
    deadline: CallDeadline,
    result: oneshot::Receiver<CallResult>,
}

impl CallRouter {
    /// The deadline of a decision that begins now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.connector.decision_timeout
    }

    /// Submits the call to the link of the server that should own its slot. Fails if the link does
    /// not accept it, or another version of Tollgate uses the store.
    pub(crate) fn submit(
        self: &Arc<Self>,
        call: StoreCall,
        deadline: impl Into<CallDeadline>,
    ) -> Result<RoutedCall, CallError> {
        if let Err(error) = self.layout.require() {
            // The link may say more.
            return Err(self.topology.down_error(call.slot).unwrap_or(error));
        }
        self.submit_unclaimed(call, deadline)
    }

    /// Does the same while it is not known whether another version uses the store.
    pub(crate) fn submit_unclaimed(
        self: &Arc<Self>,
        call: StoreCall,
        deadline: impl Into<CallDeadline>,
    ) -> Result<RoutedCall, CallError> {
        let (call, deadline) = (Arc::new(call), deadline.into());
        let link = self.topology.link(call.slot);
        let result = link
            .and_then(|link| link.submit(call.clone(), deadline.clone(), false))
            .inspect_err(|error| self.topology.note_failure(error))?;

        Ok(RoutedCall {
            router: self.clone(),
            call,
            deadline,
            result,
        })
    }

    /// Makes a call that completes in a task of its own even if its caller no longer waits. The
    /// task keeps the store alive.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        call: StoreCall,
    ) -> impl Future<Output = CallResult> + Send + use<> {
        let routed_call = self.submit(call, self.deadline());
        let task = async { routed_call?.run().await };
        join(self.connector.runtime.spawn(task))
    }
}

impl RoutedCall {
    /// Waits for the result. A call that was redirected, which has certainly not run, is sent to
    /// the other server.
    pub(crate) async fn run(mut self) -> CallResult {
        let topology = &self.router.topology;
        let mut retries = self.router.max_retries;

        loop {
            // A link that is dropped drops the senders of its calls.
            let result = (&mut self.result).await.unwrap_or_else(|_| {
                let error = ServerError::new("the connection was closed by this instance");
                Err(CallError::Unavailable(error))
            });
            let error = match result {
                Ok(reply) => return Ok(reply),
                Err(CallError::Moved(_)) if !self.router.connector.is_cluster => {
                    return Err(CallError::Refused(ServerError::part_of_cluster()));
                }
                Err(error) => error,
            };

            topology.note_failure(&error);
            if retries == 0 || Instant::now() >= self.deadline.decide_by {
                return Err(error);
            }
            let Some((link, is_asking)) = topology.redirect(&error, self.call.slot) else {
                return Err(error);
            };
            retries -= 1;
            self.result = link.submit(self.call.clone(), self.deadline.clone(), is_asking)?;
        }
    }
}

/// Waits for a task. Tasks are never aborted, so a join error means that the runtime shuts down.
pub(super) async fn join<T>(task: JoinHandle<Result<T, CallError>>) -> Result<T, CallError> {
    task.await.unwrap_or_else(|_| {
        let error = ServerError::new("the runtime is shutting down");
        Err(CallError::Unavailable(error))
    })
}
