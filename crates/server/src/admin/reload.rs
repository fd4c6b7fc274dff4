//! `POST /admin/reload`: reads the configuration file again.

use hyper::Response;
use serde::Serialize;
use tollgate_gate::api::ApiError;
use tollgate_http::Problem;
use tollgate_rules::Diagnostic;

use super::encode::{json_ok, to_json};
use crate::http::{Body, problem};
use crate::reload::ConfigReloadError;
use crate::service::Service;

/// The body of a successful reload.
#[derive(Debug, Serialize)]
struct ReloadResponse<'a> {
    reloaded: bool,
    /// The number of limits in the active configuration.
    limits: usize,
    /// What changed, one line for each field, at most 51. If another reload has already activated
    /// the file, what that changed.
    changes: Vec<String>,
    /// Warnings about a valid configuration.
    warnings: &'a [String],
}

/// The problem body for an invalid configuration.
#[derive(Debug, Serialize)]
struct ConfigProblem<'a> {
    #[serde(flatten)]
    problem: Problem<'a>,
    #[serde(rename = "faults")]
    diagnostics: Vec<DiagnosticView<'a>>,
    /// How many further diagnostics were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<usize>,
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

/// Reloads the configuration and reports the result.
pub(super) async fn respond(service: &Service) -> Result<Response<Body>, ApiError> {
    match service.reloader.reload().await {
        Ok(()) => {
            let config = &service.gate.active().config;

            Ok(json_ok(&ReloadResponse {
                reloaded: true,
                limits: config.limits.len(),
                changes: service.reloader.status().changes,
                warnings: &config.warnings,
            }))
        }
        Err(error @ ConfigReloadError::NoFile) => {
            Err(ApiError::conflict("no-file", error.to_string()))
        }
        Err(ConfigReloadError::Config(error)) => Ok(config_problem(error.iter(), error.more())),
        Err(ConfigReloadError::Tls(error)) => Ok(config_problem([&error.0], 0)),
        Err(ConfigReloadError::Store(error)) => {
            Err(ApiError::unprocessable("bad-store", error.to_string()))
        }
        Err(ConfigReloadError::AuditLog(error)) => {
            Err(ApiError::unprocessable("bad-audit-log", error.to_string()))
        }
    }
}

fn config_problem<'d>(
    diagnostics: impl IntoIterator<Item = &'d Diagnostic>,
    more: usize,
) -> Response<Body> {
    let detail = "invalid configuration, see `faults`; the previous one stays active";
    let api_error = ApiError::unprocessable("bad-config", detail);
    let diagnostics = diagnostics.into_iter().map(|diagnostic| DiagnosticView {
        file: &diagnostic.file,
        line: diagnostic.line,
        column: diagnostic.column,
        field: &diagnostic.field,
        message: &diagnostic.message,
    });
    let body = ConfigProblem {
        problem: api_error.problem(),
        diagnostics: diagnostics.collect(),
        more: Some(more).filter(|more| *more > 0),
    };

    problem(&api_error).map(|_| to_json(&body).into())
}
