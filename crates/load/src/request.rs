//! Encodes requests as HTTP/1.1 bytes.

use std::io::Write as _;

use crate::generator::RequestParams;
use crate::keys::KeyDistribution;
use crate::plan::{LoadPlan, Replica, RequestKind};

/// Path of a check.
pub(crate) const CHECK: &str = "/v1/check";
/// Path of a check that charges nothing.
pub(crate) const PEEK: &str = "/v1/peek";
const RELEASE: &str = "/v1/release";

/// Writes requests to one replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestWriter<'p> {
    pub(crate) plan: &'p LoadPlan,
    pub(crate) replica: &'p Replica,
}

impl RequestWriter<'_> {
    /// Replaces the buffer's contents by a request. `path` is ignored for applications other than
    /// the service.
    pub(crate) fn write(self, params: RequestParams, path: &str, to: &mut Vec<u8>) {
        to.clear();
        match &self.plan.request {
            RequestKind::Check { .. } => self.write_post(path, &self.check_body(params), to),
            RequestKind::Get { .. } => self.write_get(params, to),
        }
    }

    /// Replaces the buffer's contents by the release of a permit.
    pub(crate) fn write_release(self, permit_token: &str, to: &mut Vec<u8>) {
        to.clear();
        let mut body = b"{\"permit\":".to_vec();
        write_json_string(permit_token, &mut body);
        body.push(b'}');
        self.write_post(RELEASE, &body, to);
    }

    fn check_body(self, params: RequestParams) -> Vec<u8> {
        let mut body = Vec::with_capacity(192);
        let RequestKind::Check { attributes, limits } = &self.plan.request else {
            return body;
        };

        let mut value = String::new();
        body.extend_from_slice(b"{\"attributes\":{");
        for (index, (attribute, template)) in attributes.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            write_json_string(attribute.name(), &mut body);
            body.push(b':');
            value.clear();
            template.write(params, &self.plan.keys, &mut value);
            write_json_string(&value, &mut body);
        }
        body.push(b'}');

        for (index, name) in limits.iter().enumerate() {
            body.extend_from_slice(if index == 0 { b",\"limits\":[" } else { b"," });
            write_json_string(name, &mut body);
        }
        if !limits.is_empty() {
            body.push(b']');
        }

        if let Some(cost) = params.cost {
            let _infallible = write!(body, ",\"cost\":{cost}");
        }
        body.push(b'}');
        body
    }

    fn write_post(self, path: &str, body: &[u8], to: &mut Vec<u8>) {
        let Replica {
            authority, base, ..
        } = self.replica;

        let _infallible = write!(
            to,
            "POST {base}{path} HTTP/1.1\r\nHost: {authority}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        to.extend_from_slice(body);
    }

    fn write_get(self, params: RequestParams, to: &mut Vec<u8>) {
        let RequestKind::Get { path, headers } = &self.plan.request else {
            return;
        };
        let LoadPlan { keys, .. } = self.plan;
        let Replica {
            authority, base, ..
        } = self.replica;

        let path = escape_target(&path.fill(params, keys));
        let _infallible = write!(
            to,
            "GET {base}{path} HTTP/1.1\r\nHost: {authority}\r\nAccept: */*\r\n"
        );
        for (name, value) in headers {
            let _infallible = write!(to, "{name}: {}\r\n", value.fill(params, keys));
        }
        to.extend_from_slice(b"\r\n");
    }
}

/// Percent-encodes spaces, control characters and non-ASCII bytes, which a key may have but a
/// request target must not.
fn escape_target(path: &str) -> String {
    let escape = |byte: u8| {
        if byte.is_ascii_graphic() {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    path.bytes().map(escape).collect()
}

/// Appends a text as a JSON string. Neither the text nor the buffer can cause an error.
fn write_json_string(text: &str, to: &mut Vec<u8>) {
    drop(serde_json::to_writer(to, text));
}

/// The name of a request's key in reports, such as `user=key-7`.
pub(crate) fn label(
    request: &RequestKind,
    params: RequestParams,
    keys: &KeyDistribution,
) -> String {
    let pair = |name: &str, value: String| format!("{name}={value}");
    let parts: Vec<String> = match request {
        RequestKind::Check { attributes, .. } => attributes
            .iter()
            .map(|(attribute, value)| pair(attribute.name(), value.label(params, keys)))
            .collect(),
        RequestKind::Get { path, headers } => {
            let path = std::iter::once(path.label(params, keys));
            let headers = headers
                .iter()
                .map(|(name, value)| pair(name, value.label(params, keys)));
            path.chain(headers).collect()
        }
    };

    parts.join(" ")
}
