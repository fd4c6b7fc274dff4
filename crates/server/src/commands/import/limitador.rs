//! Limitador's limits file: a list of limits with a namespace, conditions and variables.

use tollgate_rules::Attribute;
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

/// Translates a file: a list of limits, or a mapping with the list in `limits`.
pub(super) fn import(root: &DocumentNode, draft: &mut ImportDraft) -> Result<(), String> {
    let list = root.get("limits").unwrap_or(root);
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

    let mut matches = vec![("domain".to_owned(), quoted(namespace))];
    for condition in texts_of(node, "conditions") {
        let Some((attribute, value)) = parse_condition(condition) else {
            draft.gap(
                node.line,
                format!("the condition {condition:?}; its limit is left out"),
                "write it as `match` if it compares an attribute with a text; `match` has no \
                 `!=`, `<` or `>`",
            );
            return;
        };
        matches.push((attribute, quoted(value)));
    }
    let variables = texts_of(node, "variables");
    let Some(key) = variables
        .iter()
        .map(|name| attribute(name))
        .collect::<Option<Vec<_>>>()
    else {
        draft.gap(
            node.line,
            format!(
                "the variables {}; their limit is left out",
                variables.join(", ")
            ),
            "use names of letters, digits, `_`, `-` and `.` in the descriptors",
        );
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

fn limit_name(namespace: &str, key: &[String]) -> String {
    let parts = [namespace]
        .into_iter()
        .chain(key.iter().map(String::as_str));
    parts.collect::<Vec<_>>().join("-")
}

/// A condition that an attribute has a text: `req.method == 'GET'`.
fn parse_condition(condition: &str) -> Option<(String, &str)> {
    let (left, right) = condition.split_once("==")?;
    let right = right.trim();
    let is_quoted =
        |quote: char| right.len() > 1 && right.starts_with(quote) && right.ends_with(quote);
    let value = if is_quoted('\'') || is_quoted('"') {
        &right[1..right.len() - 1]
    } else {
        right
    };

    // Anything else is an expression: a function, a second comparison, an escape.
    let is_plain = !value.is_empty() && !value.contains(['\'', '"', '\\', '&', '|', '(', '*']);
    let attribute = attribute(left)?;
    is_plain.then_some((attribute, value))
}

/// The attribute of a variable: `user_id`, `descriptors[0].user_id` or `descriptors[0]['user_id']`.
fn attribute(variable: &str) -> Option<String> {
    let variable = variable.trim();
    let name = match variable.strip_prefix("descriptors[0]") {
        Some(rest) => {
            let quoted = rest
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'));
            let unquoted = quoted.map(|name| name.trim_matches(['\'', '"']));
            unquoted.or_else(|| rest.strip_prefix('.'))?
        }
        None => variable,
    };

    let name = if name == "remote_address" {
        "client_ip"
    } else {
        name
    };
    // The domain of a request hides an entry of that name.
    let attribute = name
        .parse::<Attribute>()
        .ok()
        .filter(|_| name != "domain")?;
    Some(attribute.name().to_owned())
}
