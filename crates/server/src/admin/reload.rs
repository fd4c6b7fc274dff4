//! Reading the configuration again because someone asks.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tollgate::headers::PROBLEM_JSON;
use tollgate_rules::ConfigError;

use super::shown;
use crate::http::{ApiError, Body, json};
use crate::reload::ConfigReloadError;
use crate::serve::Service;

#[derive(Debug, Serialize)]
struct Done<'a> {
    reloaded: bool,
    /// The limits now in force.
    limits: usize,
    /// What is right and yet worth knowing.
    notes: &'a [String],
}

/// A problem with everything that is wrong with the file.
#[derive(Debug, Serialize)]
struct FaultsAnswer<'a> {
    #[serde(flatten)]
    fault: ApiError,
    faults: Vec<FaultShown<'a>>,
    /// How many more there are than are told.
    #[serde(skip_serializing_if = "is_zero")]
    more: usize,
}

#[derive(Debug, Serialize)]
struct FaultShown<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    field: &'a str,
    message: &'a str,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the field by reference"
)]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

pub(super) async fn answer(service: &Service) -> Result<Response<Body>, ApiError> {
    match service.reloader.reload().await {
        Ok(()) => {
            let config = &service.gate.active().config;
            Ok(shown(&Done {
                reloaded: true,
                limits: config.limits.len(),
                notes: &config.notes,
            }))
        }
        Err(refused @ ConfigReloadError::NoFile) => {
            Err(ApiError::conflict("no-file", refused.to_string()))
        }
        Err(ConfigReloadError::ConfigError(faults)) => Ok(refused(&faults)),
        Err(ConfigReloadError::Store(fault)) => {
            Err(ApiError::unprocessable("bad-store", fault.to_string()))
        }
    }
}

fn refused(faults: &ConfigError) -> Response<Body> {
    let detail =
        "the configuration was refused and the old one stays in force; `faults` says what is wrong";
    let told = faults.iter().map(|fault| FaultShown {
        file: &fault.file,
        line: fault.line,
        column: fault.column,
        field: &fault.field,
        message: &fault.message,
    });
    let fault = ApiError::unprocessable("bad-config", detail);
    let body = FaultsAnswer {
        fault,
        faults: told.collect(),
        more: faults.more(),
    };
    // Structs of text, numbers and lists never fail to serialise.
    let mut response = json(
        StatusCode::UNPROCESSABLE_ENTITY,
        serde_json::to_vec(&body).unwrap_or_default(),
    );
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    response
}
