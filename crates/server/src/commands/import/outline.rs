//! Reading fields of a document that another program defines.

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

/// The texts of a list, or of a single value.
pub(super) fn texts_of<'n>(node: &'n DocumentNode, name: &str) -> Vec<&'n str> {
    let Some(found) = node.get(name) else {
        return Vec::new();
    };
    match found.text() {
        // A field without a value is an empty list.
        Some("" | "~" | "null") => Vec::new(),
        Some(text) => vec![text],
        None => found
            .items()
            .iter()
            .filter_map(DocumentNode::text)
            .collect(),
    }
}

/// The items of a list, or none.
pub(super) fn items<'n>(node: &'n DocumentNode, name: &str) -> &'n [DocumentNode] {
    node.get(name).map_or(&[], DocumentNode::items)
}

/// Notes every field that an import does not know.
pub(super) fn reject_fields(node: &DocumentNode, known: &[&str], draft: &mut ImportDraft) {
    for (name, line) in node.fields() {
        if !known.contains(&name) {
            draft.gap(
                line,
                format!("the field `{name}` is unknown and left out"),
                "check whether you need it",
            );
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
