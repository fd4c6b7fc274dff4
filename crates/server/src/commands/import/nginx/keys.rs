//! The key of a zone: nginx variables as attributes.

use tollgate_rules::Attribute;

/// What a zone counts by.
#[derive(Debug)]
pub(super) enum ZoneKey {
    /// Attributes; none for one counter.
    Parts(Vec<String>),
    /// A variable without an equivalent, such as one of a `map`.
    Unsupported(String),
}

impl ZoneKey {
    /// Parses a key: variables such as `$binary_remote_addr`, perhaps with text between them.
    pub(super) fn parse(key: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = key;
        while let Some((_, after)) = rest.split_once('$') {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
            let (name, after) = after.strip_prefix('{').map_or_else(
                || after.split_at(end),
                |braced| braced.split_once('}').unwrap_or((braced, "")),
            );
            match attribute(name) {
                Some(attribute) => parts.push(attribute),
                None => return Self::Unsupported(format!("${name}")),
            }
            rest = after;
        }
        parts.dedup();
        Self::Parts(parts)
    }
}

/// The attribute of a variable.
fn attribute(variable: &str) -> Option<String> {
    let name = match variable {
        "binary_remote_addr" | "remote_addr" | "realip_remote_addr" => "client_ip".to_owned(),
        "host" | "http_host" | "server_name" => "host".to_owned(),
        "uri" | "request_uri" | "document_uri" => "path".to_owned(),
        "request_method" => "method".to_owned(),
        _ => {
            let (prefix, name) = variable.split_once('_')?;
            match prefix {
                "http" => format!("header:{}", name.replace('_', "-")),
                "cookie" => format!("cookie:{name}"),
                "arg" => format!("query:{name}"),
                _ => return None,
            }
        }
    };
    name.parse::<Attribute>().ok()?;
    Some(name)
}
