//! `/admin/blocks`, `/admin/exemptions`, `/admin/overrides` and `/admin/shadows`: what operators do to
//! keys and limits, listed and undone.

mod body;
mod error;
mod view;

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use serde_json::json;
use tollgate_gate::api::{ApiError, JsonBody};
use tollgate_gate::{Action, ActionKind, ListedAction};
use tollgate_rules::config::parse_duration;

use self::body::ActionFields;
use self::error::act_error;
use self::view::ActionView;
use super::encode::json_ok;
use super::query::{only_parameter, shortened};
use crate::fleet::FleetAgreement;
use crate::http::{Body, BodyLimits, read_body};
use crate::listen::ClientConnection;
use crate::service::Service;

/// The most actions of a response. The newest are listed first.
const LISTED_MAX: usize = 1_000;
/// The longest body of a request, in bytes.
const BODY_MAX: usize = 16 << 10;
/// The longest that a request waits for other replicas.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// A path of this module: a list of actions, or one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ActionRoute<'p> {
    kind: ActionKind,
    /// None for the list.
    id: Option<&'p str>,
}

/// The body of an action that was put or removed.
#[derive(Debug, Serialize)]
struct ActionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<bool>,
    #[serde(flatten)]
    action: ActionView<'a>,
    /// The replicas that know of it, if the request waits for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<FleetAgreement>,
}

impl<'p> ActionRoute<'p> {
    /// The route of a path; none if it is not one of this module.
    pub(super) fn parse(path: &'p str) -> Option<Self> {
        let rest = path.strip_prefix("/admin/")?;
        let mut parts = rest.splitn(2, '/');
        let (name, id) = (parts.next()?, parts.next());
        let mut kinds = ActionKind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.plural() == name)?;
        Some(Self { kind, id })
    }

    /// The methods of the path.
    pub(super) const fn methods(self) -> &'static str {
        match self.id {
            None => "GET, HEAD, POST",
            Some(_) => "DELETE",
        }
    }

    /// Lists, does or undoes.
    pub(super) async fn respond(
        self,
        service: &Service,
        request: &mut Request<Incoming>,
        connection: &Arc<ClientConnection>,
    ) -> Result<Response<Body>, ApiError> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        match (self.id, request.method()) {
            (Some(id), _) => remove(service, self.kind, id, wait(&query)?).await,
            (None, &Method::POST) => {
                let wait = wait(&query)?;
                create(service, self.kind, request, connection, wait).await
            }
            (None, _) => list(service, self.kind, &query),
        }
    }
}

/// Lists the actions of a kind, the newest first.
fn list(service: &Service, kind: ActionKind, query: &str) -> Result<Response<Body>, ApiError> {
    let limit = only_parameter(query, "limit", "limit=<name>")?;
    let active = service.gate.active();
    let actions = service.gate.actions(kind, limit.as_deref());

    let more = actions.len().saturating_sub(LISTED_MAX);
    let listed = actions.iter().take(LISTED_MAX);
    let now = service.gate.now();
    let views = listed.map(|listed| ActionView::new(&active, listed, now));
    let mut body = json!({ kind.plural(): views.collect::<Vec<_>>() });
    if more > 0 {
        body["more"] = more.into();
    }
    Ok(json_ok(&body))
}

async fn create(
    service: &Service,
    kind: ActionKind,
    request: &mut Request<Incoming>,
    connection: &Arc<ClientConnection>,
    wait: Option<Duration>,
) -> Result<Response<Body>, ApiError> {
    let limits = BodyLimits {
        bytes_max: BODY_MAX,
        timeout: service.gate.active().config.server.header_timeout,
    };
    let bytes = read_body(request, connection, limits).await?;
    let fields: ActionFields<'_> = JsonBody::new(&bytes).decode()?;

    let active = service.gate.active();
    let draft = fields.into_draft(&active, kind)?;
    let action = service.gate.act(draft).await.map_err(act_error)?;

    // The key itself is left out: it may be personal data.
    let (limit, by, id) = (&*action.limit, &*action.by, &*action.id);
    tracing::info!(limit, by, id, "an operator acted: {}", kind.as_str());
    Ok(respond_changed(service, action, None, wait).await)
}

async fn remove(
    service: &Service,
    kind: ActionKind,
    id: &str,
    wait: Option<Duration>,
) -> Result<Response<Body>, ApiError> {
    let removed = service.gate.undo(kind, id).await.map_err(act_error)?;
    let Some(action) = removed else {
        let (id, kind, plural) = (shortened(id), kind.as_str(), kind.plural());
        let detail =
            format!("unknown {kind} {id:?}; GET /admin/{plural} lists them with their ids");
        let status = StatusCode::NOT_FOUND;
        return Err(ApiError::new(status, "unknown-action", detail));
    };

    let (limit, id) = (&*action.limit, &*action.id);
    tracing::info!(limit, id, "an operator removed: {}", kind.as_str());
    Ok(respond_changed(service, action, Some(true), wait).await)
}

/// Waits for the other replicas, if the request does.
async fn respond_changed(
    service: &Service,
    action: Action,
    removed: Option<bool>,
    wait: Option<Duration>,
) -> Response<Body> {
    let replicas = match wait {
        Some(wait) => Some(service.fleet.agreement(&service.gate, wait).await),
        None => None,
    };
    let active = service.gate.active();
    let listed = ListedAction {
        action,
        ignored: None,
    };
    json_ok(&ActionResponse {
        removed,
        action: ActionView::new(&active, &listed, service.gate.now()),
        replicas,
    })
}

/// How long a request waits for the other replicas: `wait=<time>` or nothing.
fn wait(query: &str) -> Result<Option<Duration>, ApiError> {
    let wait = only_parameter(query, "wait", "wait=<time>")?;
    let wait = wait.map(|text| match parse_duration(&text) {
        Ok(wait) if wait <= WAIT_MAX => Ok(wait),
        _ => {
            let text = shortened(&text);
            let detail = format!("wait={text:?} is not a time of at most 10s, such as 2s");
            Err(ApiError::bad_request("invalid-parameter", detail))
        }
    });
    wait.transpose()
}
