//! A request as its proxy describes it.

use std::borrow::Cow;
use std::net::IpAddr;

use hyper::header::{COOKIE, HOST, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request};
use percent_encoding::percent_decode_str;
use tollgate_rules::{Attribute, AttributeKind, Attributes, Value};

use super::super::error::ApiError;
use super::super::route::FORWARD_AUTH;
use super::parameters::{Parameters, Proxy};

/// The request that a proxy asks about.
#[derive(Debug)]
pub(super) struct Described<'r> {
    client: IpAddr,
    method: &'r str,
    path: &'r str,
    query: &'r str,
    host: Option<&'r str>,
    headers: &'r HeaderMap,
}

impl<'r> Described<'r> {
    pub(super) fn read<B>(
        request: &'r Request<B>,
        parameters: Parameters,
        client: IpAddr,
    ) -> Result<Self, ApiError> {
        let headers = request.headers();
        let own_method = request.method().as_str();
        let header = |name: &'static str| one(headers, &HeaderName::from_static(name));
        let (method, uri, host) = match parameters.proxy {
            Proxy::Nginx => (
                header("x-original-method")?.unwrap_or(own_method),
                told(header("x-original-uri")?, "X-Original-URI")?,
                // Not X-Forwarded-Host: nginx passes on what a client sends under that name.
                header("x-original-host")?.or(one(headers, &HOST)?),
            ),
            Proxy::Traefik => (
                header("x-forwarded-method")?.unwrap_or(own_method),
                told(header("x-forwarded-uri")?, "X-Forwarded-Uri")?,
                header("x-forwarded-host")?.or(one(headers, &HOST)?),
            ),
            Proxy::Envoy => {
                let whole = request
                    .uri()
                    .path_and_query()
                    .map_or("", |whole| whole.as_str());
                let asked = whole
                    .strip_prefix(FORWARD_AUTH)
                    .filter(|asked| asked.starts_with('/'));
                (own_method, asked.ok_or_else(no_path)?, one(headers, &HOST)?)
            }
        };
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        // A path that is not there would meet no rule about paths.
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
            .find(|(name, _)| decoded(name) == field)
            .map(|(_, value)| decoded(value))
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

    /// The header; several lines of it are one list.
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

impl Attributes for Described<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let text = match attribute.kind() {
            AttributeKind::ClientIp => return Some(Value::Address(self.client)),
            AttributeKind::Method => Cow::Borrowed(self.method),
            AttributeKind::Path => Cow::Borrowed(self.path),
            AttributeKind::Host => Cow::Borrowed(self.host?),
            AttributeKind::Header => self.header(attribute.field())?,
            AttributeKind::Query => self.query(attribute.field())?,
            AttributeKind::Cookie => self.cookie(attribute.field())?,
            AttributeKind::Own => return None,
        };
        Some(Value::Text(text))
    }
}

/// A header that a proxy sets, which must be there once at most: of two, one may be the client's.
fn one<'r>(headers: &'r HeaderMap, name: &HeaderName) -> Result<Option<&'r str>, ApiError> {
    let mut lines = headers.get_all(name).iter();
    let wrong = |what: &str| {
        Err(ApiError::malformed(
            "bad-description",
            format!("the header {name} {what}"),
        ))
    };
    match (lines.next().map(HeaderValue::to_str), lines.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => {
            wrong("is there more than once; have the proxy set it instead of adding to it")
        }
        (Some(Err(_)), None) => wrong("is not text"),
        (Some(Ok(text)), None) => Ok(Some(text)),
    }
}

/// What a proxy says, if it says anything.
fn told<'r>(value: Option<&'r str>, name: &str) -> Result<&'r str, ApiError> {
    let found = value.filter(|text| !text.is_empty());
    found.ok_or_else(|| {
        let detail = format!("the header {name} is missing; have the proxy send it");
        ApiError::malformed("no-description", detail)
    })
}

fn no_path() -> ApiError {
    let detail = "the path asked about is missing; it follows /v1/forward-auth, as in /v1/forward-auth/index.html";
    ApiError::malformed("no-description", detail)
}

fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}
