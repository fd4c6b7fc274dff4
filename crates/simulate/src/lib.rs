//! Replays an access log through a configuration of Tollgate and reports what it would have denied.
//!
//! The stages are [`LogInput`] (files, gzip, standard input), [`LogParser`] (common, combined or
//! JSON lines), [`ConfigReplay`] (selects the limits of each request and decides at its time), the
//! counters, and [`SimulationReport`].
//!
//! This crate reads logs and counts decisions. `tollgate-rules` selects the limits of a request and
//! `tollgate` decides, exactly as in the service. The crate does not depend on the command line,
//! and never contacts a server or reads the clock.

mod batch;
mod compare;
mod config_run;
mod counts;
mod input;
mod log;
mod replay;
mod report;
mod simulation;
mod suggest;
pub mod text;

pub use batch::{ReplayRequest, SimulationProgress};
pub use input::{LINE_MAX, LineChunk, LineReader, LogInput, LogLine, TrailingBytes};
pub use log::{
    AccessLogFormat, FieldError, LineError, LogFields, LogParser, LogRecord, LoggedMoment,
};
pub use replay::{ConfigReplay, ReplayDecision, ReplayError, StandingDemand};
pub use report::*;
pub use simulation::{ReportLabels, Simulation, SimulationPlan, SuggestionRange};
pub use suggest::SuggestionTrials;
