//! What an error of an action means to its caller.

use tollgate_gate::api::ApiError;
use tollgate_gate::records::RecordError;
use tollgate_gate::{ActError, DecideError};

pub(super) fn act_error(error: ActError) -> ApiError {
    let detail = error.to_string();
    match error {
        ActError::Select(error) => DecideError::from(error).into(),
        ActError::Quota(_) => ApiError::unprocessable("bad-override", detail),
        ActError::ForeignAttribute { .. } => ApiError::unprocessable("foreign-attribute", detail),
        ActError::NoAddress { .. } => ApiError::unprocessable("no-address", detail),
        ActError::Full => ApiError::conflict("too-many-actions", detail),
        ActError::Conflict => ApiError::conflict("action-changed", detail),
        ActError::Record(RecordError::Store(_)) => ApiError::unavailable(
            "store-unavailable",
            format!("{detail}; the action may or may not be in force: list them, or try again"),
        ),
        ActError::Record(_) => ApiError::unprocessable("too-long", detail),
    }
}
