//! The original request, as a proxy describes it.

use std::borrow::Cow;
use std::net::IpAddr;

use hyper::header::{COOKIE, HOST, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request};
use percent_encoding::{AsciiSet, percent_encode};
use tollgate_gate::api::ApiError;
use tollgate_rules::{Attribute, AttributeKind, Attributes, Value};
use tollgate_subject::{FieldValues, cookie_values, joined_lines, query_values};

use super::parameters::{FORWARD_AUTH, ForwardAuthParameters, ProxyKind};

/// Only bytes that are not ASCII are encoded: a client may send them without encoding.
const NOT_ASCII: &AsciiSet = &AsciiSet::EMPTY;

/// Headers with the names of CGI variables, from which gunicorn takes a part of the path.
const PATH_VARIABLES: [&str; 2] = ["script_name", "path_info"];

/// The request that a proxy received from its client.
#[derive(Debug)]
pub(super) struct OriginalRequest<'r> {
    client: IpAddr,
    method: Cow<'r, str>,
    /// The path and the query. Bytes that are not ASCII are percent-encoded.
    uri: Cow<'r, str>,
    host: Option<Cow<'r, str>>,
    headers: &'r HeaderMap,
    /// Whether the proxy joins the lines of a header with commas.
    has_joined_lines: bool,
    /// Whether the name of a header contains `_` or `.`, which some backends take for `-`.
    has_odd_names: bool,
}

impl<'r> OriginalRequest<'r> {
    pub(super) fn from_headers<B>(
        request: &'r Request<B>,
        parameters: ForwardAuthParameters,
        client: IpAddr,
    ) -> Result<Self, ApiError> {
        let headers = request.headers();
        let own_method = request.method().as_str().as_bytes();
        let header = |name: &'static str| single(headers, &HeaderName::from_static(name));
        if let Some(name) = PATH_VARIABLES
            .iter()
            .find(|name| headers.contains_key(**name))
        {
            let detail = format!(
                "header {name}: some servers take the path from it; configure the proxy to remove \
                 headers with `_` in their names"
            );
            return Err(ApiError::bad_request("invalid-original-request", detail));
        }

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

        Ok(Self {
            client,
            method: String::from_utf8_lossy(method),
            uri: percent_encode(uri, NOT_ASCII).into(),
            host: host.map(String::from_utf8_lossy),
            headers,
            has_joined_lines: parameters.proxy == ProxyKind::Envoy,
            has_odd_names: headers
                .keys()
                .any(|name| name.as_str().contains(['_', '.'])),
        })
    }

    /// The path and the query without the question mark, which is empty when there is none.
    fn path_and_query(&self) -> (&str, &str) {
        let (path, query) = self.uri.split_once('?').unwrap_or((&self.uri, ""));
        // An empty path would match no condition on paths.
        (if path.is_empty() { "/" } else { path }, query)
    }

    fn cookie(&self, name: &str) -> FieldValues<'_> {
        let lines = self.headers.get_all(COOKIE).iter();
        cookie_values(name, lines.map(HeaderValue::as_bytes))
    }

    /// The lines of a header.
    fn header(&self, name: &str) -> FieldValues<'_> {
        if self.has_joined_lines {
            let lines = self.headers.get_all(name).iter().map(lossy);
            return lines.flat_map(|line| joined_lines(name, line)).collect();
        }
        if !self.has_odd_names {
            return self.headers.get_all(name).iter().map(lossy).collect();
        }

        let lines = self.headers.iter().filter(|(found, _)| {
            let found = found.as_str().bytes();
            found.map(dashed).eq(name.bytes().map(dashed))
        });
        lines.map(|(_, value)| lossy(value)).collect()
    }
}

impl Attributes for OriginalRequest<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let (path, query) = self.path_and_query();
        let field = attribute.field();

        Some(match attribute.kind() {
            AttributeKind::ClientIp => Value::Address(self.client),
            AttributeKind::Method => Value::Text(Cow::Borrowed(&self.method)),
            AttributeKind::Path => Value::Text(Cow::Borrowed(path)),
            AttributeKind::Host => Value::Text(Cow::Borrowed(self.host.as_deref()?)),
            AttributeKind::Header => Value::Texts(self.header(field)),
            AttributeKind::Query => Value::Texts(query_values(field, query)),
            AttributeKind::Cookie => Value::Texts(self.cookie(field)),
            AttributeKind::Custom => return None,
        })
    }
}

/// A header that the proxy sets. It must not occur twice: one of the two may be the client's.
fn single<'r>(headers: &'r HeaderMap, name: &HeaderName) -> Result<Option<&'r [u8]>, ApiError> {
    let mut lines = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let first = lines.next();

    if lines.next().is_some() {
        let detail = format!(
            "duplicate header {name}: configure the proxy to set it instead of appending to it"
        );
        return Err(ApiError::bad_request("invalid-original-request", detail));
    }
    Ok(first)
}

fn required<'r>(value: Option<&'r [u8]>, name: &str) -> Result<&'r [u8], ApiError> {
    value.filter(|bytes| !bytes.is_empty()).ok_or_else(|| {
        let detail = format!("missing header {name}: configure the proxy to send it");
        ApiError::bad_request("missing-original-request", detail)
    })
}

/// The original path and query that Envoy appends to the path of forward-auth.
fn appended_uri<B>(request: &Request<B>) -> Result<&[u8], ApiError> {
    let whole = request.uri().path_and_query();
    whole
        .and_then(|whole| whole.as_str().strip_prefix(FORWARD_AUTH))
        .filter(|original| original.starts_with('/'))
        .map(str::as_bytes)
        .ok_or_else(|| {
            let detail = "missing original path: expected it after /v1/forward-auth, \
                          as in /v1/forward-auth/index.html";
            ApiError::bad_request("missing-original-request", detail)
        })
}

fn lossy(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

/// The byte of a header's name, as CGI and WSGI applications see it.
const fn dashed(byte: u8) -> u8 {
    if matches!(byte, b'_' | b'.') {
        b'-'
    } else {
        byte
    }
}
