//! The key of a zone: nginx variables as attributes.

use tollgate_rules::Attribute;

use super::super::draft::{ImportDraft, LimitDraft, quoted_list};

/// What a zone counts by.
#[derive(Debug)]
pub(super) enum ZoneKey {
    /// Attributes; none for one counter.
    Parts {
        names: Vec<String>,
        /// Whether a request without one of them is not counted.
        is_optional: bool,
    },
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
        Self::from_parts(parts)
    }

    /// Lets a limit count by this key. False if it has no equivalent.
    pub(super) fn set(
        &self,
        limit: &mut LimitDraft,
        source: &str,
        draft: &mut ImportDraft,
    ) -> bool {
        let (names, is_optional) = match self {
            Self::Parts { names, is_optional } => (names, *is_optional),
            Self::Unsupported(variable) => {
                let found = format!("{source} counts by {variable}");
                let advice = "count by an attribute: let nginx send it in a header, as \
                              `proxy_set_header X-Key $variable;`, and use \
                              `key: [\"header:x-key\"]`";
                draft.gap(limit.line, found, advice);
                return false;
            }
        };

        limit.set("key", quoted_list(names));
        if is_optional {
            limit.set("optional", "true");
        }
        if is_optional && names.len() > 1 {
            let found = format!("{source}: a request without one part of the key is not counted");
            let advice = "let nginx send one header with the whole key";
            draft.gap(limit.line, found, advice);
        }
        true
    }

    /// A key is empty, and not counted, only if all its variables are. Beside one that every
    /// request has, a missing value is a value of its own.
    fn from_parts(mut names: Vec<String>) -> Self {
        let is_present = |name: &&String| !name.contains(':');
        let present = names.iter().find(is_present).cloned();
        if let Some(present) = &present {
            for name in names.iter_mut().filter(|name| name.contains(':')) {
                *name = format!("{name} | {present}");
            }
        }
        Self::Parts {
            is_optional: present.is_none() && !names.is_empty(),
            names,
        }
    }
}

/// The attribute of a variable.
fn attribute(variable: &str) -> Option<String> {
    let name = match variable {
        "binary_remote_addr" | "remote_addr" => "client_ip".to_owned(),
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
