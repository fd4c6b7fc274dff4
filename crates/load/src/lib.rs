//! Open-loop load generator for rate limiters, which also judges whether the limits held.
//!
//! A [`LoadSchedule`] fixes when each request is due before the load starts, so slow responses do
//! not slow down the load. The requests come from many virtual clients ([`KeyDistribution`],
//! [`ValueTemplate`]) and go to the replicas round robin over a bounded number of connections.
//! Latencies are measured from the time a request was due. Admitted requests are compared with
//! what the limits allow ([`BoundSource`]). The result is a [`LoadReport`]. An experiment that judges
//! a load itself lists the requests of its own ([`ScheduledRequest`]) and gets back what became of
//! each ([`run_traced`]).
//!
//! This crate contains the clients and the bookkeeping. What limits allow comes from
//! `tollgate-audit`, and which counter a request is charged to comes from `tollgate-rules`. The
//! crate does not depend on command line parsing, terminals or the service itself.
//!
//! Everything runs on one thread, except for a timer thread that only sleeps. So there are no
//! locks, and the bookkeeping does not distort the measurements.

mod clock;
mod error;
mod generator;
mod http;
mod judge;
mod keys;
mod plan;
mod record;
mod replica;
mod report;
mod request;
mod response;
mod retry;
mod run;
mod schedule;
mod template;
mod tls;

pub use error::LoadError;
pub use generator::{CostRange, RequestParams, ScheduledRequest, SourceAddresses};
pub use judge::{Allowance, BoundSource};
pub use keys::{KeyDistribution, KeyDistributionError};
pub use plan::{LoadPlan, Replica, RequestKind};
pub use record::{LoadProgress, TracedDecision, TracedRequest};
pub use report::{
    ErrorCounts, GeneratorReport, LatencySummary, LoadFailure, LoadLimitReport, LoadReport,
    LoadTimeline, LoadTolerance, LoadWorstInterval, ReplicaReport, RequestCounts, RetryReport,
    latency_histogram,
};
pub use response::DecisionSource;
pub use run::{run, run_traced};
pub use schedule::{Arrivals, LoadSchedule};
pub use template::{TemplateError, ValueTemplate};
pub use tls::{ClientTls, ClientTlsError};
