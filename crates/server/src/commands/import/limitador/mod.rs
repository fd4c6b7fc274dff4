//! Limitador's limits file: a list of limits with a namespace, conditions and variables. A
//! `Limitador` resource of Kubernetes has the same list in `spec.limits`.

mod conditions;

use tollgate_rules::config::DocumentNode;

use self::conditions::attribute;
use super::draft::{ImportDraft, LimitDraft, conditions, quoted, quoted_list};
use super::outline::{describe, reject_fields, text_of, texts_of};

const FIELDS: &[&str] = &[
    "id",
    "namespace",
    "name",
    "max_value",
    "seconds",
    "conditions",
    "variables",
];

/// The list of limits: the document itself, its field `limits`, or that of a resource.
pub(super) fn list(root: &DocumentNode) -> &DocumentNode {
    let holder = root.get("spec").unwrap_or(root);
    holder.get("limits").unwrap_or(root)
}

/// Translates a file.
pub(super) fn import(root: &DocumentNode, draft: &mut ImportDraft) -> Result<(), String> {
    let list = list(root);
    if let Some(storage) = root.get("spec").and_then(|spec| spec.get("storage")) {
        draft.gap(
            storage.line,
            "`storage` is not imported; the file counts in memory",
            "add a Redis store: `store: { type: redis, endpoints: [..] }`",
        );
    }
    if list.items().is_empty() {
        return Err("expected a list of limits with `namespace`, `max_value` and `seconds`".into());
    }
    for limit in list.items() {
        read_limit(limit, draft);
    }
    Ok(())
}

fn read_limit(node: &DocumentNode, draft: &mut ImportDraft) {
    reject_fields(node, FIELDS, draft);
    let fields = ["namespace", "max_value", "seconds"].map(|name| text_of(node, name));
    let [Some(namespace), Some(max_value), Some(seconds)] = fields else {
        draft.gap(
            node.line,
            "a limit without `namespace`, `max_value` and `seconds`; it is left out",
            "complete it",
        );
        return;
    };
    if max_value.parse() == Ok(0_u64) || seconds.parse() == Ok(0_u64) {
        draft.gap(
            node.line,
            "`max_value` and `seconds` are at least 1 here; the limit is left out",
            "deny these requests in the gateway",
        );
        return;
    }

    let Some(mut matches) = read_conditions(node, namespace, draft) else {
        return;
    };
    let Some(key) = read_variables(node, draft) else {
        return;
    };
    matches.sort_by_key(|(name, _)| name != "domain");
    let name = text_of(node, "name").or_else(|| text_of(node, "id"));
    let name = name.map_or_else(|| limit_name(namespace, &key), str::to_owned);
    let matches = matches
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()));
    draft.add(LimitDraft {
        name,
        line: node.line,
        source: describe(node, &["namespace", "max_value", "seconds"]),
        fields: vec![
            ("match", conditions(matches)),
            ("key", quoted_list(key.iter().map(String::as_str))),
            ("algorithm", "fixed_window".to_owned()),
            ("limit", max_value.to_owned()),
            ("window", format!("{seconds}s")),
        ],
    });
}

/// The conditions as `match`. None if one has no equivalent.
fn read_conditions(
    node: &DocumentNode,
    namespace: &str,
    draft: &mut ImportDraft,
) -> Option<Vec<(String, String)>> {
    let mut matches = vec![("domain".to_owned(), quoted(namespace))];
    for condition in texts_of(node, "conditions") {
        let Some(parsed) = conditions::parse(condition) else {
            draft.gap(
                node.line,
                format!("the condition {condition:?}; its limit is left out"),
                "`match` compares attributes with texts: `==`, `in`, `startsWith`, with `&&` between \
                 them; it has no `!=`, `<` or `>`",
            );
            return None;
        };
        matches.extend(parsed.into_iter().map(|condition| {
            let patterns = condition.patterns.iter().map(String::as_str);
            let patterns = pattern_list(patterns);
            (condition.attribute, patterns)
        }));
    }
    Some(matches)
}

/// The variables as `key`. None if one has no equivalent.
fn read_variables(node: &DocumentNode, draft: &mut ImportDraft) -> Option<Vec<String>> {
    let variables = texts_of(node, "variables");
    let key: Option<Vec<String>> = variables.iter().map(|name| attribute(name)).collect();
    if key.is_none() {
        draft.gap(
            node.line,
            format!(
                "the variables {}; their limit is left out",
                variables.join(", ")
            ),
            "use names of letters, digits, `_`, `-` and `.` in the descriptors",
        );
    }
    key
}

fn limit_name(namespace: &str, key: &[String]) -> String {
    let parts = [namespace]
        .into_iter()
        .chain(key.iter().map(String::as_str));
    parts.collect::<Vec<_>>().join("-")
}

/// One pattern, or a list of them.
fn pattern_list<'t>(patterns: impl ExactSizeIterator<Item = &'t str> + Clone) -> String {
    match patterns.clone().next() {
        Some(only) if patterns.len() == 1 => quoted(only),
        _ => quoted_list(patterns),
    }
}
