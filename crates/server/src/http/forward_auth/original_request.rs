//! The original request, as a proxy describes it.

use std::borrow::Cow;
use std::net::IpAddr;

use hyper::header::{COOKIE, HOST, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request};
use percent_encoding::percent_decode_str;
use tollgate_rules::{Attribute, AttributeKind, Attributes, Value};

use super::super::error::ApiError;
use super::super::route::FORWARD_AUTH;
use super::parameters::{ForwardAuthParameters, ProxyKind};

/// The request that a proxy received from its client.
#[derive(Debug)]
pub(super) struct OriginalRequest<'r> {
    client: IpAddr,
    method: &'r str,
    path: &'r str,
    /// Without the question mark; empty when there is none.
    query: &'r str,
    host: Option<&'r str>,
    headers: &'r HeaderMap,
}

impl<'r> OriginalRequest<'r> {
    pub(super) fn from_headers<B>(
        request: &'r Request<B>,
        parameters: ForwardAuthParameters,
        client: IpAddr,
    ) -> Result<Self, ApiError> {
        let headers = request.headers();
        let own_method = request.method().as_str();
        let header = |name: &'static str| single(headers, &HeaderName::from_static(name));

        let (method, uri, host) = match parameters.proxy {
            ProxyKind::Nginx => (
                header("x-original-method")?.unwrap_or(own_method),
                required(header("x-original-uri")?, "X-Original-URI")?,
                // Not X-Forwarded-Host: nginx passes on the one that a client sends.
                header("x-original-host")?.or(single(headers, &HOST)?),
            ),
            ProxyKind::Traefik => (
                header("x-forwarded-method")?.unwrap_or(own_method),
                required(header("x-forwarded-uri")?, "X-Forwarded-Uri")?,
                header("x-forwarded-host")?.or(single(headers, &HOST)?),
            ),
            ProxyKind::Envoy => (own_method, appended_uri(request)?, single(headers, &HOST)?),
        };

        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        // An empty path would match no condition on paths.
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self {
            client,
            method,
            path,
            query,
            host,
            headers,
        })
    }

    fn query(&self, field: &str) -> Option<Cow<'_, str>> {
        let mut pairs = self
            .query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs
            .find(|(name, _)| percent_decoded(name) == field)
            .map(|(_, value)| percent_decoded(value))
    }

    fn cookie(&self, field: &str) -> Option<Cow<'_, str>> {
        let lines = self
            .headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|line| line.to_str().ok());
        let mut pairs = lines
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));

        pairs
            .find(|(name, _)| *name == field)
            .map(|(_, value)| Cow::Borrowed(value))
    }

    /// A header's value. Several lines are joined to one list, as HTTP defines it.
    fn header(&self, field: &str) -> Option<Cow<'_, str>> {
        let mut lines = self
            .headers
            .get_all(field)
            .iter()
            .map(|line| String::from_utf8_lossy(line.as_bytes()));
        let first = lines.next()?;
        Some(lines.fold(first, |joined, line| joined + ", " + line))
    }
}

impl Attributes for OriginalRequest<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let text = match attribute.kind() {
            AttributeKind::ClientIp => return Some(Value::Address(self.client)),
            AttributeKind::Method => Cow::Borrowed(self.method),
            AttributeKind::Path => Cow::Borrowed(self.path),
            AttributeKind::Host => Cow::Borrowed(self.host?),
            AttributeKind::Header => self.header(attribute.field())?,
            AttributeKind::Query => self.query(attribute.field())?,
            AttributeKind::Cookie => self.cookie(attribute.field())?,
            AttributeKind::Custom => return None,
        };
        Some(Value::Text(text))
    }
}

/// A header that the proxy sets. It must not occur twice: one of the two may be the client's.
fn single<'r>(headers: &'r HeaderMap, name: &HeaderName) -> Result<Option<&'r str>, ApiError> {
    let mut lines = headers.get_all(name).iter();
    let invalid = |detail: String| Err(ApiError::bad_request("invalid-original-request", detail));

    match (lines.next().map(HeaderValue::to_str), lines.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => invalid(format!(
            "duplicate header {name}: configure the proxy to set it instead of appending to it"
        )),
        (Some(Err(_)), None) => invalid(format!("the header {name} is not text")),
        (Some(Ok(text)), None) => Ok(Some(text)),
    }
}

fn required<'r>(value: Option<&'r str>, name: &str) -> Result<&'r str, ApiError> {
    value.filter(|text| !text.is_empty()).ok_or_else(|| {
        let detail = format!("missing header {name}: configure the proxy to send it");
        ApiError::bad_request("missing-original-request", detail)
    })
}

/// The original path and query that Envoy appends to the path of forward-auth.
fn appended_uri<B>(request: &Request<B>) -> Result<&str, ApiError> {
    let whole = request.uri().path_and_query();
    whole
        .and_then(|whole| whole.as_str().strip_prefix(FORWARD_AUTH))
        .filter(|original| original.starts_with('/'))
        .ok_or_else(|| {
            let detail = "missing original path: expected it after /v1/forward-auth, \
                          as in /v1/forward-auth/index.html";
            ApiError::bad_request("missing-original-request", detail)
        })
}

fn percent_decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}
