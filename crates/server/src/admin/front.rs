//! Authorises, routes and answers the requests of the admin port.

use std::sync::Arc;

use http_body_util::Either;
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Method, Request, Response, StatusCode};
use tollgate_gate::AccessError;
use tollgate_gate::api::ApiError;
use tollgate_rules::Permission;

use super::actions::ActionRoute;
use super::dashboard::{self, Dashboard, EventStream};
use super::guard::{AdminAccess, AdminGuard, AdminTokens};
use super::{fleet, keys, limits, metrics, reload, status, top};
use crate::guard::{expect_host, presented_token};
use crate::http::{Body, alive, problem};
use crate::listen::{self, ClientConnection, Front, ShutdownSignal};
use crate::service::Service;

/// The methods of a path that is only read.
const READ: &str = "GET, HEAD";

/// Each path with its methods and its access control. The files of the dashboard have further
/// paths.
const ROUTES: [(&str, &str, AdminAccess); 10] = [
    ("/healthz", READ, AdminAccess::Public),
    ("/readyz", READ, AdminAccess::Public),
    ("/metrics", READ, AdminAccess::Api),
    ("/admin/limits", READ, AdminAccess::Api),
    ("/admin/status", READ, AdminAccess::Api),
    ("/admin/fleet", READ, AdminAccess::Api),
    ("/admin/keys", "GET, HEAD, DELETE", AdminAccess::Api),
    ("/admin/top", READ, AdminAccess::Api),
    ("/admin/reload", "POST", AdminAccess::Api),
    ("/admin/events", "GET", AdminAccess::Events),
];

/// A complete body, or the event stream of the dashboard.
type AdminBody = Either<Body, EventStream>;

/// The handler of the admin port.
#[derive(Debug)]
pub(crate) struct AdminFront {
    service: Arc<Service>,
    guard: AdminGuard,
    dashboard: Dashboard,
}

impl AdminFront {
    /// Creates the handler. With `tokens`, requests must carry one of them.
    pub(crate) fn new(service: Arc<Service>, tokens: Option<AdminTokens>) -> Self {
        Self {
            guard: AdminGuard::new(tokens),
            dashboard: Dashboard::new(service.clone()),
            service,
        }
    }

    /// Keeps the dashboard up to date until the service shuts down.
    pub(crate) async fn watch(self: Arc<Self>, shutdown: ShutdownSignal) {
        self.dashboard.watch(shutdown).await;
    }

    /// Requires the admin token. A token of the data ports that allows it may reset keys, too.
    fn authorize(&self, request: &Request<Incoming>, access: AdminAccess) -> Result<(), ApiError> {
        let error = match self.guard.authorize(request, access) {
            Err(error) if error.status == StatusCode::UNAUTHORIZED => error,
            result => return result,
        };
        let active = self.service.gate.active();
        let is_reset = request.uri().path() == "/admin/keys" && request.method() == Method::DELETE;
        if !is_reset || !active.requires_token() {
            return Err(error);
        }

        let presented = presented_token(request.headers());
        active
            .authorize(presented, Permission::Reset)
            .map_err(|refused| match refused {
                AccessError::NotPermitted { .. } => refused.into(),
                _ => error,
            })
    }

    async fn route(
        &self,
        request: &mut Request<Incoming>,
        connection: &Arc<ClientConnection>,
    ) -> Result<Response<AdminBody>, ApiError> {
        expect_host(request)?;
        let service = &*self.service;
        let uri = request.uri().clone();
        let (path, method) = (uri.path(), request.method().clone());

        let file = dashboard::file(path);
        let action = ActionRoute::parse(path);
        let route = ROUTES.iter().find(|(known, ..)| *known == path);
        let (allow, access) = match (route, action) {
            (Some((_, allow, access)), _) => (Some(*allow), *access),
            (None, Some(action)) => (Some(action.methods()), AdminAccess::Api),
            (None, None) if file.is_some() => (Some(READ), AdminAccess::Page),
            (None, None) => (None, AdminAccess::Api),
        };

        self.authorize(request, access)?;
        let allow = allow.ok_or_else(|| ApiError::admin_not_found(path))?;
        if !allow.split(", ").any(|known| known == method.as_str()) {
            return Err(ApiError::method_not_allowed(&method, allow));
        }

        let _slot = match access {
            AdminAccess::Public => None,
            _ if !connection.admits_request() => return Err(ApiError::too_many_connections()),
            _ => Some(connection.try_slot().ok_or_else(ApiError::overloaded)?),
        };
        if let Some(action) = action {
            let response = action.respond(service, request, connection).await?;
            return Ok(response.map(Either::Left));
        }
        let response = match path {
            "/healthz" => alive(),
            "/readyz" => service.readiness.response(&service.gate),
            "/metrics" => metrics::respond(service)?,
            "/admin/limits" => limits::respond(service),
            "/admin/status" => status::respond(service),
            "/admin/fleet" => fleet::respond(service),
            "/admin/keys" if method == Method::DELETE => keys::reset(service, request).await?,
            "/admin/keys" => keys::show(service, request).await?,
            "/admin/top" => top::respond(service, request).await?,
            "/admin/reload" => reload::respond(service).await?,
            "/admin/events" => {
                return Ok(self.dashboard.events(connection)?.map(Either::Right));
            }
            _ => file.ok_or_else(|| ApiError::admin_not_found(path))?,
        };
        Ok(response.map(Either::Left))
    }
}

impl Front for AdminFront {
    type Body = AdminBody;

    async fn handle(
        &self,
        mut request: Request<Incoming>,
        connection: &Arc<ClientConnection>,
    ) -> Response<AdminBody> {
        let result = self.route(&mut request, connection).await;
        let mut response = result.unwrap_or_else(|error| problem(&error).map(Either::Left));

        let headers = response.headers_mut();
        // Responses change from second to second and may be for authorised clients only.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        listen::discard_unread(&mut request, response, connection).await
    }
}
