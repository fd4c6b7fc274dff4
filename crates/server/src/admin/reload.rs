//! `POST /admin/reload`: reads the configuration file again.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tollgate::headers::PROBLEM_JSON;
use tollgate_rules::ConfigError;

use super::json_ok;
use crate::http::{ApiError, Body, json};
use crate::reload::ConfigReloadError;
use crate::serve::Service;

/// The body of a successful reload.
#[derive(Debug, Serialize)]
struct ReloadResponse<'a> {
    reloaded: bool,
    /// The number of limits in the active configuration.
    limits: usize,
    /// Warnings about a valid configuration.
    notes: &'a [String],
}

/// The problem body for an invalid configuration.
#[derive(Debug, Serialize)]
struct ConfigProblem<'a> {
    #[serde(flatten)]
    error: ApiError,
    #[serde(rename = "faults")]
    diagnostics: Vec<DiagnosticView<'a>>,
    /// How many further diagnostics were left out.
    #[serde(skip_serializing_if = "is_zero")]
    more: usize,
}

/// One mistake in the configuration file.
#[derive(Debug, Serialize)]
struct DiagnosticView<'a> {
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

/// Reloads the configuration and reports the result.
pub(super) async fn respond(service: &Service) -> Result<Response<Body>, ApiError> {
    match service.reloader.reload().await {
        Ok(()) => {
            let config = &service.gate.active().config;

            Ok(json_ok(&ReloadResponse {
                reloaded: true,
                limits: config.limits.len(),
                notes: &config.notes,
            }))
        }
        Err(error @ ConfigReloadError::NoFile) => {
            Err(ApiError::conflict("no-file", error.to_string()))
        }
        Err(ConfigReloadError::Config(error)) => Ok(config_problem(&error)),
        Err(ConfigReloadError::Store(error)) => {
            Err(ApiError::unprocessable("bad-store", error.to_string()))
        }
    }
}

fn config_problem(error: &ConfigError) -> Response<Body> {
    let detail = "invalid configuration, see `faults`; the previous one stays active";
    let diagnostics = error.iter().map(|diagnostic| DiagnosticView {
        file: &diagnostic.file,
        line: diagnostic.line,
        column: diagnostic.column,
        field: &diagnostic.field,
        message: &diagnostic.message,
    });
    let body = ConfigProblem {
        error: ApiError::unprocessable("bad-config", detail),
        diagnostics: diagnostics.collect(),
        more: error.more(),
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
