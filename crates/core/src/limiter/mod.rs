//! The limiter: decides about requests by their demands, in one store call, and follows the limits'
//! failure policies while the store is unavailable.

mod api;
mod builder;
mod check;
mod engine;
mod error;
mod failure;
mod handle;
mod permit;
mod permit_ids;
mod refund;
mod request;
mod reservation;
mod rules;
mod store_part;
mod waiting;

pub use api::Limiter;
pub use builder::LimiterBuilder;
pub use check::{Check, CheckFuture, Inspection};
pub use error::Error;
pub use failure::{Health, StoreErrors};
pub use handle::LimitHandle;
pub use permit::{Acquisition, Permit};
pub use refund::{Refund, RefundFuture};
pub use request::{DemandList, Demands, ExtendDemands, OneDemand};
pub use reservation::{
    RESERVATION_TTL_DEFAULT, RESERVATION_TTL_MAX, Reservation, Reserve, reservation_ttl,
};
