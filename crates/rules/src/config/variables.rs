//! Expands environment variables in values. This happens after YAML is parsed, so that no value can
//! change the structure of a file.

use std::collections::HashMap;

use super::diagnostic::{Diagnostics, SourcePosition};
use super::path;
use super::scalar::{Origin, ScalarValue, is_null, quoted};
use super::values::has_only;
use super::yaml::{DocumentNode, YamlEntry, YamlValue};

/// The maximum total size of all expanded variables, in bytes. It bounds files that repeat a long
/// variable many times.
const VARIABLES_MAX: usize = 1 << 20;

/// Looks up the value of an environment variable.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Expands the variables in every value, and checks that every key is a string and unique.
pub(super) fn expand(
    root: &mut DocumentNode,
    env: &Environment<'_>,
    diagnostics: &Diagnostics<'_>,
) {
    VariableExpander {
        env,
        diagnostics,
        bytes_left: VARIABLES_MAX,
    }
    .expand_node(root, "");
}

struct VariableExpander<'a> {
    env: &'a Environment<'a>,
    diagnostics: &'a Diagnostics<'a>,
    /// How many more bytes variables may add.
    bytes_left: usize,
}

impl VariableExpander<'_> {
    /// Recurses into the tree, whose depth is bounded.
    fn expand_node(&mut self, node: &mut DocumentNode, path: &str) {
        let position = node.position();
        match &mut node.value {
            YamlValue::Scalar(scalar) => self.expand_scalar(scalar, position, path),
            YamlValue::List(nodes) => {
                for (index, node) in nodes.iter_mut().enumerate() {
                    let path = path::item(path, index, node);
                    self.expand_node(node, &path);
                }
            }
            YamlValue::Mapping(entries) => self.expand_mapping(entries, path),
        }
    }

    fn expand_mapping(&mut self, entries: &mut [YamlEntry], path: &str) {
        let mut lines = HashMap::new();
        for entry in entries {
            let path = path::field(path, &entry.key.text);
            let error = |message: &str| self.diagnostics.error(entry.position, &path, message);

            if entry.key.text.contains("${") {
                error("variables are not allowed in field names; use them in values only");
            } else if entry.key.is_plain && is_not_string(&entry.key.text) {
                let found = quoted(&entry.key.text);
                error(&format!(
                    "a field name must be a string; write {found} in quotes"
                ));
            }

            let line = entry.position.line;
            if let Some(line) = lines.insert(entry.key.text.clone(), line) {
                let name = path::name(&entry.key.text);
                error(&format!(
                    "duplicate field {name}; first defined on line {line}"
                ));
            }
            self.expand_node(&mut entry.node, &path);
        }
    }

    fn expand_scalar(&mut self, scalar: &mut ScalarValue, position: SourcePosition, path: &str) {
        match self.expand_text(&scalar.text) {
            Ok((value, origin)) => (scalar.value, scalar.origin) = (value, origin),
            Err(message) => {
                self.diagnostics.error(position, path, message);
                scalar.origin = Origin::Failed;
            }
        }
    }

    /// Expands the variables in a text. Returns the value, and where it comes from.
    fn expand_text(&mut self, text: &str) -> Result<(String, Origin), String> {
        let (mut value, mut rest, mut origin) = (String::new(), text, Origin::File);

        while let Some((before, after)) = rest.split_once("${") {
            // `$${` is an escaped `${`.
            if let Some(before) = before.strip_suffix('$') {
                value = value + before + "${";
                rest = after;
                continue;
            }

            let Some((inside, after)) = after.split_once('}') else {
                return Err("unclosed variable; write ${NAME}, or $${ for a literal `${`".into());
            };
            let variable = self.look_up(inside)?;
            self.bytes_left = self.bytes_left.checked_sub(variable.len()).ok_or_else(|| {
                format!("variables too long: at most {VARIABLES_MAX} bytes in total are allowed")
            })?;

            value = value + before + &variable;
            (rest, origin) = (after, Origin::Environment);
        }
        Ok((value + rest, origin))
    }

    /// The value of `NAME` or `NAME:-default`. As in a shell, the default also replaces an empty
    /// value.
    fn look_up(&self, inside: &str) -> Result<String, String> {
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };

        // The error does not show the name, because it may be part of a secret that contains `${`.
        if !is_variable_name(name) {
            return Err(
                "invalid variable name; write ${NAME} or ${NAME:-default}, or $${ for a literal \
                 `${`"
                    .into(),
            );
        }

        let value = (self.env)(name).filter(|value| default.is_none() || !value.is_empty());
        value.or_else(|| default.map(str::to_owned)).ok_or_else(|| {
            format!("environment variable {name} is not set; set it, or write ${{{name}:-default}}")
        })
    }
}

fn is_variable_name(name: &str) -> bool {
    has_only(name, "_") && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether YAML reads an unquoted key as a null, a boolean or a number instead of a string.
fn is_not_string(key: &str) -> bool {
    let is_number = key.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && key.parse::<f64>().is_ok();
    is_null(key) || is_number || matches!(key.to_ascii_lowercase().as_str(), "true" | "false")
}
