//! Variables of the environment in values, read after YAML, so that no value can change the
//! structure of a file.

use std::collections::HashMap;

use super::fault::{Log, Place};
use super::path;
use super::text::{Origin, Text, is_null, shown};
use super::tree::{Entry, Node, Value};

/// The most that all variables of a file may add up to, in bytes. A file that repeats a long one a
/// thousand times is wrong.
const VARIABLES_MAX: usize = 1 << 20;

/// Where the value of a variable comes from.
pub(super) type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Settles the meaning of every text, and checks every key: known once, and a word.
pub(super) fn settle(root: &mut Node, env: &Environment<'_>, log: &Log<'_>) {
    Settling {
        env,
        log,
        left: VARIABLES_MAX,
    }
    .node(root, "");
}

struct Settling<'a> {
    env: &'a Environment<'a>,
    log: &'a Log<'a>,
    left: usize,
}

impl Settling<'_> {
    /// As deep as the tree is, which has its bound.
    fn node(&mut self, node: &mut Node, path: &str) {
        match &mut node.value {
            Value::Text(text) => self.text(text, node.at, path),
            Value::List(nodes) => {
                for (index, node) in nodes.iter_mut().enumerate() {
                    let path = path::item(path, index, node);
                    self.node(node, &path);
                }
            }
            Value::Table(entries) => self.table(entries, path),
        }
    }

    fn table(&mut self, entries: &mut [Entry], path: &str) {
        let mut lines = HashMap::new();
        for Entry { key, at, node } in entries {
            let path = path::field(path, &key.written);
            self.key(key, *at, &path);
            if let Some(line) = lines.insert(key.written.clone(), at.line) {
                self.log.fault(
                    *at,
                    &path,
                    format!("is given twice, first on line {line}; leave one out"),
                );
            }
            self.node(node, &path);
        }
    }

    fn key(&self, key: &Text, at: Place, path: &str) {
        if key.written.contains("${") {
            self.log.fault(
                at,
                path,
                "found a variable in a name; variables are read in values only",
            );
        } else if key.is_plain && is_other(&key.written) {
            let right = "a name is a word; write it in quotes if it is meant so";
            self.log.fault(
                at,
                path,
                format!("found {} as a name; {right}", shown(&key.written)),
            );
        }
    }

    fn text(&mut self, text: &mut Text, at: Place, path: &str) {
        match self.expanded(&text.written) {
            Ok(Expanded {
                meant,
                from_environment,
            }) => {
                text.meant = meant;
                if from_environment {
                    text.origin = Origin::Environment;
                }
            }
            Err(message) => {
                self.log.fault(at, path, message);
                text.origin = Origin::Broken;
            }
        }
    }

    fn expanded(&mut self, written: &str) -> Result<Expanded, String> {
        let (mut meant, mut rest, mut from_environment) = (String::new(), written, false);
        while let Some(dollar) = rest.find("${") {
            let (before, after) = (&rest[..dollar], &rest[dollar + 2..]);
            if let Some(before) = before.strip_suffix('$') {
                meant.push_str(before);
                meant.push_str("${");
                rest = after;
                continue;
            }
            let Some((inside, after)) = after.split_once('}') else {
                return Err(
                    "found `${` without `}`; write ${NAME}, or $${ for the two characters themselves".into(),
                );
            };
            let value = self.value(inside)?;
            self.left = self.left.checked_sub(value.len()).ok_or_else(|| {
                format!(
                    "found variables with more than {VARIABLES_MAX} bytes in all; a configuration needs less"
                )
            })?;
            meant.push_str(before);
            meant.push_str(&value);
            (rest, from_environment) = (after, true);
        }
        meant.push_str(rest);
        Ok(Expanded {
            meant,
            from_environment,
        })
    }

    /// What stands for `NAME` or `NAME:-default`. As in a shell, the default also stands for an
    /// empty value.
    fn value(&self, inside: &str) -> Result<String, String> {
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if !is_name(name) {
            // What stands there may be a part of a secret.
            let right =
                "write ${NAME} or ${NAME:-default}, or $${ for the two characters themselves";
            return Err(format!(
                "found `${{` without the name of a variable; {right}"
            ));
        }
        let value = (self.env)(name).filter(|value| default.is_none() || !value.is_empty());
        value.or_else(|| default.map(str::to_owned)).ok_or_else(|| {
            format!("the environment has no variable {name}; set it, or write ${{{name}:-default}}")
        })
    }
}

struct Expanded {
    meant: String,
    from_environment: bool,
}

fn is_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_fine)
}

/// True for what YAML takes for nothing, a truth value or a number rather than for a word.
fn is_other(key: &str) -> bool {
    let is_number = key.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && key.parse::<f64>().is_ok();
    is_null(key) || is_number || matches!(key.to_ascii_lowercase().as_str(), "true" | "false")
}
