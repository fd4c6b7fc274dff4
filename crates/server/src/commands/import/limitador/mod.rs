//! Limitador's limits file: a list of limits with a namespace, conditions and variables. A
//! `Limitador` resource of Kubernetes has the same list in `spec.limits`.

mod conditions;

use tollgate_rules::config::DocumentNode;

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
        let found = "`storage` is not imported; the file counts in memory";
        let advice = "add a Redis store: `store: { type: redis, endpoints: [..] }`";
        draft.gap(storage.line, found, advice);
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
        let found = "a limit without `namespace`, `max_value` and `seconds`; it is left out";
        return draft.gap(node.line, found, "complete it");
    };
    if [max_value, seconds]
        .iter()
        .any(|number| number.parse() == Ok(0_u64))
    {
        let found = "`max_value` and `seconds` are at least 1 here; the limit is left out";
        return draft.gap(node.line, found, "deny these requests in the gateway");
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
    let source = describe(node, &["namespace", "max_value", "seconds"]);
    let mut limit = LimitDraft::new(name, node.line, source);
    limit.set("match", conditions(matches));
    limit.set("key", quoted_list(&key));
    // A request without one of the variables does not meet the limit.
    if !key.is_empty() {
        limit.set("optional", "true");
    }
    limit.set("algorithm", "fixed_window");
    limit.set("limit", max_value);
    limit.set("window", format!("{seconds}s"));
    draft.add(limit);
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
            let found = format!("the condition {condition:?}; its limit is left out");
            let advice = "`match` compares attributes with texts: `==`, `in`, `startsWith`, with \
                          `&&` between them; it has no `!=`, `<` or `>`";
            draft.gap(node.line, found, advice);
            return None;
        };
        matches.extend(parsed.into_iter().map(|condition| {
            let patterns = match condition.patterns.as_slice() {
                [only] => quoted(only),
                patterns => quoted_list(patterns),
            };
            (condition.attribute, patterns)
        }));
    }
    Some(matches)
}

/// The variables as `key`. None if one has no equivalent.
fn read_variables(node: &DocumentNode, draft: &mut ImportDraft) -> Option<Vec<String>> {
    let variables = texts_of(node, "variables");
    let key: Option<Vec<String>> = variables
        .iter()
        .map(|name| conditions::variable(name))
        .collect();
    if key.is_none() {
        let variables = variables.join(", ");
        let found = format!("the variables {variables}; their limit is left out");
        let advice = "use names of letters, digits, `_`, `-` and `.` in the descriptors";
        draft.gap(node.line, found, advice);
    }
    key
}

fn limit_name(namespace: &str, key: &[String]) -> String {
    let parts = [namespace]
        .into_iter()
        .chain(key.iter().map(|part| &**part));
    parts.collect::<Vec<_>>().join("-")
}
