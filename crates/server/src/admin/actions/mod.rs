//! `/admin/blocks`, `/admin/exemptions`, `/admin/overrides` and `/admin/shadows`: what operators do to
//! keys and limits, listed and undone.

mod body;
mod error;
mod view;

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};
use tollgate_gate::api::{ApiError, JsonBody};
use tollgate_gate::{ActionKind, ListedAction};

use self::body::ActionFields;
use self::error::act_error;
use self::view::ActionView;
use super::encode::json_ok;
use super::query::limit_filter;
use crate::http::{Body, BodyLimits, read_body};
use crate::listen::ClientConnection;
use crate::service::Service;

/// The most actions of a response. The newest are listed first.
const LISTED_MAX: usize = 1_000;
/// The longest body of a request, in bytes.
const BODY_MAX: usize = 16 << 10;
/// The methods of a list, and of one action.
const LIST_METHODS: &str = "GET, HEAD, POST";
const ONE_METHODS: &str = "DELETE";

/// A path of this module: a list of actions, or one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ActionRoute<'p> {
    kind: ActionKind,
    /// None for the list.
    id: Option<&'p str>,
}

/// The body of an action that was removed.
#[derive(Debug, Serialize)]
struct RemovedAction<'a> {
    removed: bool,
    #[serde(flatten)]
    action: ActionView<'a>,
}

impl<'p> ActionRoute<'p> {
    /// The route of a path; none if it is not one of this module.
    pub(super) fn parse(path: &'p str) -> Option<Self> {
        let rest = path.strip_prefix("/admin/")?;
        let (name, id) = match rest.split_once('/') {
            Some((name, id)) => (name, Some(id)),
            None => (rest, None),
        };
        let mut kinds = ActionKind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.plural() == name)?;
        Some(Self { kind, id })
    }

    /// The methods of the path.
    pub(super) const fn methods(self) -> &'static str {
        match self.id {
            None => LIST_METHODS,
            Some(_) => ONE_METHODS,
        }
    }

    /// Lists, does or undoes.
    pub(super) async fn respond(
        self,
        service: &Service,
        request: &mut Request<Incoming>,
        connection: &Arc<ClientConnection>,
    ) -> Result<Response<Body>, ApiError> {
        match (self.id, request.method()) {
            (Some(id), _) => remove(service, self.kind, id).await,
            (None, &Method::POST) => create(service, self.kind, request, connection).await,
            (None, _) => list(
                service,
                self.kind,
                request.uri().query().unwrap_or_default(),
            ),
        }
    }
}

/// Lists the actions of a kind, the newest first.
fn list(service: &Service, kind: ActionKind, query: &str) -> Result<Response<Body>, ApiError> {
    let limit = limit_filter(query)?;
    let active = service.gate.active();
    let actions = service.gate.actions(kind, limit.as_deref());

    let more = actions.len().saturating_sub(LISTED_MAX);
    let listed = actions.iter().take(LISTED_MAX);
    let views = listed.map(|listed| ActionView::new(&active, listed, service.gate.now()));
    let views: Vec<ActionView<'_>> = views.collect();
    let mut body = Map::new();
    let views = serde_json::to_value(views).unwrap_or_default();
    body.insert(kind.plural().to_owned(), views);
    if more > 0 {
        body.insert("more".to_owned(), Value::from(more));
    }
    Ok(json_ok(&body))
}

async fn create(
    service: &Service,
    kind: ActionKind,
    request: &mut Request<Incoming>,
    connection: &Arc<ClientConnection>,
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
    let listed = ListedAction {
        action,
        ignored: None,
    };
    Ok(json_ok(&ActionView::new(
        &active,
        &listed,
        service.gate.now(),
    )))
}

async fn remove(service: &Service, kind: ActionKind, id: &str) -> Result<Response<Body>, ApiError> {
    let removed = service.gate.undo(kind, id).await.map_err(act_error)?;
    let Some(action) = removed else {
        let id: String = id.chars().take(80).collect();
        let (kind, plural) = (kind.as_str(), kind.plural());
        let detail =
            format!("unknown {kind} {id:?}; GET /admin/{plural} lists them with their ids");
        return Err(ApiError::new(
            StatusCode::NOT_FOUND,
            "unknown-action",
            detail,
        ));
    };

    let (limit, id) = (&*action.limit, &*action.id);
    tracing::info!(limit, id, "an operator removed: {}", kind.as_str());
    let active = service.gate.active();
    let listed = ListedAction {
        action,
        ignored: None,
    };
    Ok(json_ok(&RemovedAction {
        removed: true,
        action: ActionView::new(&active, &listed, service.gate.now()),
    }))
}
