//! Reading fields of a document that another program defines.

use tollgate_rules::Attribute;
use tollgate_rules::config::DocumentNode;

use super::draft::ImportDraft;

/// Whether a field is `true`.
pub(super) fn is_true(node: &DocumentNode, name: &str) -> bool {
    let text = node.get(name).and_then(DocumentNode::text);
    text.is_some_and(|text| matches!(text, "true" | "True" | "TRUE" | "yes" | "on"))
}

/// The text of a field.
pub(super) fn text_of<'n>(node: &'n DocumentNode, name: &str) -> Option<&'n str> {
    let text = node.get(name).and_then(DocumentNode::text);
    text.filter(|text| !matches!(*text, "" | "~" | "null"))
}

/// The texts of a list, or of a single value. A field without a value is an empty list.
pub(super) fn texts_of<'n>(node: &'n DocumentNode, name: &str) -> Vec<&'n str> {
    let items = items(node, name).iter().filter_map(DocumentNode::text);
    text_of(node, name).into_iter().chain(items).collect()
}

/// The items of a list, or none.
pub(super) fn items<'n>(node: &'n DocumentNode, name: &str) -> &'n [DocumentNode] {
    node.get(name).map_or(&[], DocumentNode::items)
}

/// The line of a field, or that of the mapping which does not have it.
pub(super) fn line_of(node: &DocumentNode, name: &str) -> usize {
    node.get(name).map_or(node.line, |field| field.line)
}

/// Notes every field that an import does not know.
pub(super) fn reject_fields(node: &DocumentNode, known: &[&str], draft: &mut ImportDraft) {
    for (name, line) in node.fields() {
        if !known.contains(&name) {
            let found = format!("the field `{name}` is unknown and left out");
            draft.gap(line, found, "check whether you need it");
        }
    }
}

/// Some fields of a mapping in one line, for a comment.
pub(super) fn describe(node: &DocumentNode, names: &[&str]) -> String {
    let fields = names.iter().filter_map(|name| {
        let text = node.get(name)?.text()?;
        Some(format!("{name}: {text}"))
    });
    fields.collect::<Vec<_>>().join(", ")
}

/// The attribute of an entry of a descriptor. `client_ip` also reads Envoy's `remote_address`.
pub(super) fn attribute(key: &str) -> Option<String> {
    if key == "remote_address" {
        return Some("client_ip".to_owned());
    }
    let attribute: Attribute = key.parse().ok()?;
    // An entry called `domain` would be hidden by the domain of the request.
    (key != "domain").then(|| attribute.name().to_owned())
}
