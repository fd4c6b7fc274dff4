//! The decision API without its transport: an operation is a JSON object, its answer a status and a
//! JSON object. The HTTP port and the clients that run in an application share it.

mod batch;
mod error;
mod json;
mod limits;
mod operation;
mod requested_limit;

pub use batch::batch;
pub use error::{ApiError, select_code};
pub use json::{ATTRIBUTES_MAX, JsonBody, NamedAttributes, is_same_attribute};
pub use operation::{Answer, ApiContext, ApiOperation};

#[cfg(test)]
mod tests;
