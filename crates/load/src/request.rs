//! Encodes requests.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Serialize;

use crate::generator::RequestParams;
use crate::http::HttpRequest;
use crate::plan::{LoadPlan, Replica, RequestKind};

/// Path of a check.
pub(crate) const CHECK: &str = "/v1/check";
/// Path of a check that charges nothing.
pub(crate) const PEEK: &str = "/v1/peek";
const RELEASE: &str = "/v1/release";

/// What a key may have but a request target must not. Non-ASCII characters are always escaped.
const TARGET_ESCAPES: &AsciiSet = &CONTROLS.add(b' ').add(b'<').add(b'>').add(b'`');

/// The body of a check, without members that have their default.
#[derive(Serialize)]
struct CheckRequest<'p> {
    attributes: BTreeMap<&'p str, String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    limits: &'p [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
}

/// A request to a replica. `path` is ignored for applications other than the service.
pub(crate) fn encode(
    plan: &LoadPlan,
    replica: &Replica,
    path: &str,
    params: RequestParams,
) -> io::Result<HttpRequest> {
    match &plan.request {
        RequestKind::Check { attributes, limits } => {
            let values = attributes
                .iter()
                .map(|(attribute, value)| (attribute.name(), value.fill(params, &plan.keys)));
            let body = CheckRequest {
                attributes: values.collect(),
                limits,
                cost: params.cost,
            };
            post(replica, path, &body)
        }
        RequestKind::Get { path, headers } => {
            let path = path.fill(params, &plan.keys);
            let path = utf8_percent_encode(&path, TARGET_ESCAPES);
            let mut request = Request::get(format!("{}{path}", replica.base))
                .header(HOST, &replica.authority)
                .header(ACCEPT, "*/*");
            for (name, value) in headers {
                let value = value.fill(params, &plan.keys);
                let value = HeaderValue::from_bytes(value.as_bytes()).map_err(io::Error::other)?;
                request = request.header(name, value);
            }
            request.body(Full::default()).map_err(io::Error::other)
        }
    }
}

/// The release of a permit.
pub(crate) fn encode_release(replica: &Replica, permit_token: &str) -> io::Result<HttpRequest> {
    post(
        replica,
        RELEASE,
        &BTreeMap::from([("permit", permit_token)]),
    )
}

fn post(replica: &Replica, path: &str, body: &impl Serialize) -> io::Result<HttpRequest> {
    let body = Bytes::from(serde_json::to_vec(body)?);
    let mut request = Request::post(format!("{}{path}", replica.base))
        .header(HOST, &replica.authority)
        .header(CONTENT_TYPE, "application/json");
    if let Some(authorization) = &replica.authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    request.body(body.into()).map_err(io::Error::other)
}

/// The name of a request's key in reports, such as `user=key-7`.
pub(crate) fn label(plan: &LoadPlan, params: RequestParams) -> String {
    let pair = |name: &str, value: String| format!("{name}={value}");
    let parts: Vec<String> = match &plan.request {
        RequestKind::Check { attributes, .. } => attributes
            .iter()
            .map(|(attribute, value)| pair(attribute.name(), value.label(params, &plan.keys)))
            .collect(),
        RequestKind::Get { path, headers } => {
            let path = std::iter::once(path.label(params, &plan.keys));
            let headers = headers
                .iter()
                .map(|(name, value)| pair(name, value.label(params, &plan.keys)));
            path.chain(headers).collect()
        }
    };

    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::judge::BoundSource;
    use crate::template::ValueTemplate;

    const PARAMS: RequestParams = RequestParams {
        key: 7,
        address: 0,
        cost: Some(3),
    };

    #[tokio::test]
    async fn a_check_has_its_attributes_limits_and_cost() {
        let mut plan = LoadPlan::for_tests(BoundSource::Responses);
        let replica = plan.replicas.remove(0);
        let body = async |plan: &LoadPlan, params| {
            let request = encode(plan, &replica, CHECK, params).unwrap();
            assert_eq!(
                (request.method().as_str(), request.uri().path()),
                ("POST", CHECK)
            );
            assert_eq!(request.headers()[HOST], "h:1");
            let body = request.into_body().collect().await.unwrap().to_bytes();
            String::from_utf8(body.to_vec()).unwrap()
        };
        let free = RequestParams {
            cost: None,
            ..PARAMS
        };
        assert_eq!(
            body(&plan, free).await,
            r#"{"attributes":{"user":"key-7"}}"#
        );
        if let RequestKind::Check { limits, .. } = &mut plan.request {
            limits.push("a\"b".to_owned());
        }
        assert_eq!(
            body(&plan, PARAMS).await,
            r#"{"attributes":{"user":"key-7"},"limits":["a\"b"],"cost":3}"#
        );
    }

    #[test]
    fn a_path_is_escaped_and_headers_are_filled() {
        let template = |text: &str| ValueTemplate::parse(text).unwrap();
        let plan = LoadPlan {
            request: RequestKind::Get {
                path: template("/a b/é?q=<{key}>"),
                headers: vec![("x-key".to_owned(), template("{key}é"))],
            },
            ..LoadPlan::for_tests(BoundSource::Responses)
        };
        let request = encode(&plan, &plan.replicas[0], CHECK, PARAMS).unwrap();
        assert_eq!(request.uri(), "/a%20b/%C3%A9?q=%3Ckey-7%3E");
        assert_eq!(request.headers()["x-key"].as_bytes(), "key-7é".as_bytes());
    }
}
