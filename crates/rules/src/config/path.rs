//! Paths of fields as errors show them, such as `limits[reports].refill_rate`.

use tollgate::LimitName;

use super::scalar::quoted;
use super::yaml::{YamlNode, YamlValue};

/// The maximum length of a key that is shown without quotes.
const PLAIN_MAX: usize = 64;

/// The path of a field of a mapping.
pub(super) fn field(mapping: &str, key: &str) -> String {
    let dot = if mapping.is_empty() { "" } else { "." };
    if is_plain(key) {
        format!("{mapping}{dot}{key}")
    } else {
        format!("{mapping}{dot}{}", quoted(key))
    }
}

/// The name of a field for a message: in backticks if it is plain, else in quotes.
pub(super) fn name(key: &str) -> String {
    if is_plain(key) {
        format!("`{key}`")
    } else {
        quoted(key)
    }
}

/// The path of an item of a list. Limits are identified by their names if those may be shown.
pub(super) fn item(list: &str, index: usize, node: &YamlNode) -> String {
    match limit_name(node).filter(|_| list == "limits") {
        Some(name) => format!("{list}[{name}]"),
        None => format!("{list}[{index}]"),
    }
}

fn is_plain(key: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-:".contains(c);
    !key.is_empty() && key.len() <= PLAIN_MAX && key.chars().all(is_plain)
}

/// The name of a limit, if it may be shown. This is used before and after variables are expanded,
/// so it depends on the text alone. A text with a variable is not a valid name.
fn limit_name(limit: &YamlNode) -> Option<&str> {
    let YamlValue::Mapping(entries) = &limit.value else {
        return None;
    };
    let entry = entries.iter().find(|entry| entry.key.text == "name")?;
    match &entry.node.value {
        YamlValue::Scalar(name) if LimitName::new(&name.text).is_ok() => Some(&name.text),
        _ => None,
    }
}
