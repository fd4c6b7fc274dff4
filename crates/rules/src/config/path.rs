//! Paths of fields as errors show them, such as `limits[reports].refill_rate`.

use tollgate::LimitName;

use super::scalar::quoted;
use super::values::has_only;
use super::yaml::DocumentNode;

/// The maximum length of a key that is shown without quotes.
const PLAIN_MAX: usize = 64;

/// The path of a field of a mapping.
pub(super) fn field(mapping: &str, key: &str) -> String {
    let dot = if mapping.is_empty() { "" } else { "." };
    let shown = if is_plain(key) { key } else { &quoted(key) };
    format!("{mapping}{dot}{shown}")
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
pub(super) fn item(list: &str, index: usize, node: &DocumentNode) -> String {
    match limit_name(node).filter(|_| list == "limits") {
        Some(name) => format!("{list}[{name}]"),
        None => format!("{list}[{index}]"),
    }
}

fn is_plain(key: &str) -> bool {
    (1..=PLAIN_MAX).contains(&key.len()) && has_only(key, "_-:")
}

/// The name of a limit, if it may be shown. This is used before and after variables are expanded,
/// so it depends on the text alone. A text with a variable is not a valid name.
fn limit_name(limit: &DocumentNode) -> Option<&str> {
    let name = limit.get("name")?.text();
    name.filter(|name| LimitName::new(name).is_ok())
}
