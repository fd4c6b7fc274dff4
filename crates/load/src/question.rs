//! Requests as bytes.

use std::io::Write as _;

use crate::draw::Draw;
use crate::keys::Keys;
use crate::plan::{Asking, Plan, Replica};

/// Where a decision is asked for.
pub(crate) const CHECK: &str = "/v1/check";
/// The same without being charged.
pub(crate) const PEEK: &str = "/v1/peek";
const RELEASE: &str = "/v1/release";

/// Writes requests to one replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) replica: &'p Replica,
}

impl Question<'_> {
    /// The request that was drawn; `path` matters to the service alone.
    pub(crate) fn write(self, draw: Draw, path: &str, to: &mut Vec<u8>) {
        to.clear();
        match &self.plan.asking {
            Asking::Check { .. } => self.post(path, &self.body(draw), to),
            Asking::Get { .. } => self.get(draw, to),
        }
    }

    /// Gives a place back.
    pub(crate) fn write_release(self, lease: &str, to: &mut Vec<u8>) {
        to.clear();
        let mut body = b"{\"permit\":".to_vec();
        quote(lease, &mut body);
        body.push(b'}');
        self.post(RELEASE, &body, to);
    }

    fn body(self, draw: Draw) -> Vec<u8> {
        let mut body = Vec::with_capacity(192);
        let Asking::Check { attributes, limits } = &self.plan.asking else {
            return body;
        };
        let mut value = String::new();
        body.extend_from_slice(b"{\"attributes\":{");
        for (index, (attribute, template)) in attributes.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            quote(attribute.name(), &mut body);
            body.push(b':');
            value.clear();
            template.write(draw, &self.plan.keys, &mut value);
            quote(&value, &mut body);
        }
        body.push(b'}');
        for (index, name) in limits.iter().enumerate() {
            body.extend_from_slice(if index == 0 { b",\"limits\":[" } else { b"," });
            quote(name, &mut body);
        }
        if !limits.is_empty() {
            body.push(b']');
        }
        if let Some(cost) = draw.cost {
            let _infallible = write!(body, ",\"cost\":{cost}");
        }
        body.push(b'}');
        body
    }

    fn post(self, path: &str, body: &[u8], to: &mut Vec<u8>) {
        let Replica {
            authority, base, ..
        } = self.replica;
        let _infallible = write!(
            to,
            "POST {base}{path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        to.extend_from_slice(body);
    }

    fn get(self, draw: Draw, to: &mut Vec<u8>) {
        let Asking::Get { path, headers } = &self.plan.asking else {
            return;
        };
        let Plan { keys, .. } = self.plan;
        let Replica {
            authority, base, ..
        } = self.replica;
        let path = in_target(&path.fill(draw, keys));
        let _infallible = write!(
            to,
            "GET {base}{path} HTTP/1.1\r\nHost: {authority}\r\nAccept: */*\r\n"
        );
        for (name, value) in headers {
            let _infallible = write!(to, "{name}: {}\r\n", value.fill(draw, keys));
        }
        to.extend_from_slice(b"\r\n");
    }
}

/// A key may hold what a request's first line must not.
fn in_target(path: &str) -> String {
    let escape = |byte: u8| {
        if byte.is_ascii_graphic() {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    path.bytes().map(escape).collect()
}

/// A text as JSON. Writing to memory does not fail, and texts can always be written.
fn quote(text: &str, to: &mut Vec<u8>) {
    drop(serde_json::to_writer(to, text));
}

/// What the plan's keys are called.
pub(crate) fn label(asking: &Asking, draw: Draw, keys: &Keys) -> String {
    let named = |name: &str, value: String| format!("{name}={value}");
    let parts: Vec<String> = match asking {
        Asking::Check { attributes, .. } => attributes
            .iter()
            .map(|(name, value)| named(name.name(), value.label(draw, keys)))
            .collect(),
        Asking::Get { path, headers } => {
            let path = std::iter::once(path.label(draw, keys));
            path.chain(
                headers
                    .iter()
                    .map(|(name, value)| named(name, value.label(draw, keys))),
            )
            .collect()
        }
    };
    parts.join(" ")
}
