//! One request, followed to the server that has its slot.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio::time::Instant;

use super::Inner;
use crate::endpoint::Address;
use crate::failure::{Cause, Failure};
use crate::lane::{self, Lane};
use crate::topology::Topology;
use crate::wire::{Answered, Request};

/// A request that has been put into the queue of a server.
#[derive(Debug)]
pub(super) struct Attempt {
    inner: Arc<Inner>,
    request: Arc<Request>,
    deadline: Instant,
    put: Put,
}

type Put = Result<oneshot::Receiver<lane::Answer>, Failure>;

impl Attempt {
    /// Puts the request where its slot should be.
    pub(super) fn start(inner: Arc<Inner>, request: Request, deadline: Instant) -> Self {
        let request = Arc::new(request);
        let put = inner
            .topology
            .lane(request.slot)
            .and_then(|lane| lane.submit(request.clone(), deadline, false));
        if matches!(put, Err(Failure::Unavailable(_))) {
            inner.doubt();
        }
        Self {
            inner,
            request,
            deadline,
            put,
        }
    }

    /// The failure, if it is known already.
    pub(super) fn fail_fast(self) -> Result<Self, Failure> {
        match self.put {
            Err(failure) => Err(failure),
            put @ Ok(_) => Ok(Self { put, ..self }),
        }
    }

    /// Waits for the answer. An attempt that certainly did not run, because the slot is elsewhere,
    /// is made there.
    pub(super) async fn run(self) -> Result<Answered, Failure> {
        let Self {
            inner,
            request,
            deadline,
            mut put,
        } = self;
        let mut retries = inner.max_retries;
        loop {
            let failure = match answered(put).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let next = match &failure {
                Failure::Moved(address) => inner.redirect(address).map(|lane| (lane, false)),
                Failure::Ask(address) => inner.redirect(address).map(|lane| (lane, true)),
                Failure::TryAgain => inner
                    .topology
                    .lane(request.slot)
                    .ok()
                    .map(|lane| (lane, false)),
                Failure::Unavailable(_) => {
                    inner.doubt();
                    None
                }
                Failure::Timeout | Failure::Overloaded | Failure::Refused(_) => None,
            };
            if next.is_none()
                && matches!(failure, Failure::Moved(_))
                && !inner.topology.is_cluster()
            {
                return Err(Failure::Refused(Cause::new(
                    "the server is part of a cluster; name it as one",
                )));
            }
            let Some((lane, is_asking)) = next.filter(|_| retries > 0 && Instant::now() < deadline)
            else {
                return Err(failure);
            };
            retries -= 1;
            put = lane.submit(request.clone(), deadline, is_asking);
        }
    }
}

impl Inner {
    /// The lane to where a server sent us, and a look at the map, which is out of date.
    fn redirect(&self, address: &Address) -> Option<Arc<Lane>> {
        match &self.topology {
            Topology::Single(_) => None,
            Topology::Cluster(cluster) => {
                cluster.doubt();
                cluster.lane_to(address)
            }
        }
    }

    /// Has the map looked at: a server that is gone may have a successor.
    fn doubt(&self) {
        if let Topology::Cluster(cluster) = &self.topology {
            cluster.doubt();
        }
    }
}

async fn answered(put: Put) -> Result<Answered, Failure> {
    // A lane that ends forgets who asked.
    put?.await.unwrap_or_else(|_| {
        Err(Failure::Unavailable(Cause::new(
            "the connection was closed here",
        )))
    })
}

/// The outcome of a task that nothing aborts.
pub(super) fn joined(
    result: Result<Result<Answered, Failure>, JoinError>,
) -> Result<Answered, Failure> {
    result.unwrap_or_else(|_| {
        Err(Failure::Unavailable(Cause::new(
            "the runtime is shutting down",
        )))
    })
}
