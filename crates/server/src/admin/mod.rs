//! The admin port: the dashboard, the admin API and the metrics page.
//!
//! Every request is authorised (`guard`), routed (`front`) and answered. The port keeps no state
//! besides the dashboard's: responses are built from the service at the time of the request.
//! Errors are [`ApiError`](tollgate_gate::api::ApiError)s, as on the HTTP port.

mod actions;
mod dashboard;
mod encode;
mod fleet;
mod front;
mod guard;
mod keys;
mod limits;
mod metrics;
mod query;
mod reload;
mod status;
mod top;

pub(crate) use self::front::AdminFront;
pub(crate) use self::guard::AdminTokens;
