//! The way to a field, as faults name it: `limits[reports].refill_rate`.

use super::text::{Text, shown};
use super::tree::{Node, Value};

/// A key that needs no quotes in a path.
const PLAIN_MAX: usize = 64;

/// The path of a field of a table.
pub(super) fn field(table: &str, key: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-:".contains(c);
    let key = if !key.is_empty() && key.len() <= PLAIN_MAX && key.chars().all(is_plain) {
        key.into()
    } else {
        shown(key)
    };
    if table.is_empty() {
        key
    } else {
        format!("{table}.{key}")
    }
}

/// The path of an item of a list. Limits go by their names, where those may be shown.
pub(super) fn item(list: &str, index: usize, node: &Node) -> String {
    let name = if list == "limits" {
        node.entry("name")
    } else {
        None
    };
    match name.map(|entry| &entry.node.value) {
        Some(Value::Text(name)) if is_showable(name) => format!("{list}[{}]", name.written),
        _ => format!("{list}[{index}]"),
    }
}

/// The name is looked at before and after variables are read, so what is written decides.
fn is_showable(name: &Text) -> bool {
    !name.written.contains("${") && tollgate::LimitName::new(&name.written).is_ok()
}
