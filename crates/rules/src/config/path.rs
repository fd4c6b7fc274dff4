//! Paths of fields as errors show them, such as `limits[reports].refill_rate`.

use super::scalar::{ScalarValue, quoted};
use super::yaml::{YamlNode, YamlValue};

/// The maximum length of a key that is shown without quotes.
const PLAIN_MAX: usize = 64;

/// The path of a field of a mapping.
pub(super) fn field(mapping: &str, key: &str) -> String {
    let key = if is_plain(key) {
        key.into()
    } else {
        quoted(key)
    };

    if mapping.is_empty() {
        key
    } else {
        format!("{mapping}.{key}")
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
    let name = if list == "limits" {
        node.entry("name")
    } else {
        None
    };
    match name.map(|entry| &entry.node.value) {
        Some(YamlValue::Scalar(name)) if is_showable(name) => format!("{list}[{}]", name.text),
        _ => format!("{list}[{index}]"),
    }
}

fn is_plain(key: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-:".contains(c);
    !key.is_empty() && key.len() <= PLAIN_MAX && key.chars().all(is_plain)
}

/// Whether a limit's name may be shown. Called before and after variables are expanded, so it
/// depends on the text alone.
fn is_showable(name: &ScalarValue) -> bool {
    !name.text.contains("${") && tollgate::LimitName::new(&name.text).is_ok()
}
