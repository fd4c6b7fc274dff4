//! The fingerprint of a configuration, by which replicas find out whether theirs are the same.
//!
//! It covers the values of the file after variables are expanded. Layout, comments and the order of
//! fields make no difference. Secrets are not covered: nothing about them can be derived from it.
//! Paths of files that a replica writes are not covered either.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::names::SECRETS;
use super::yaml::{DocumentNode, YamlEntry, YamlValue};

/// Fields with the path of a file that a replica writes. Replicas on one machine need one each.
const FILE_FIELDS: [&str; 2] = ["snapshot", "to"];

/// A fingerprint of a configuration: equal for equal values, and in practice only for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConfigFingerprint([u8; 8]);

/// Sixteen hexadecimal digits.
impl fmt::Display for ConfigFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl ConfigFingerprint {
    /// The fingerprint of a file whose variables are expanded.
    pub(super) fn new(root: &DocumentNode) -> Self {
        let mut hash = Sha256::new();
        add_node(&mut hash, root);

        let digest = hash.finalize();
        Self(std::array::from_fn(|at| digest[at]))
    }
}

/// Adds a node with its kind and its length, so that different trees never give the same bytes. The
/// depth of a tree is bounded.
fn add_node(hash: &mut Sha256, node: &DocumentNode) {
    match &node.value {
        YamlValue::Scalar(scalar) => add_text(hash, &scalar.value),
        YamlValue::List(nodes) => {
            hash.update([b'[']);
            nodes.iter().for_each(|node| add_node(hash, node));
            hash.update([b']']);
        }
        YamlValue::Mapping(entries) => {
            let mut sorted: Vec<&YamlEntry> = entries.iter().collect();
            sorted.sort_by(|a, b| a.key.text.cmp(&b.key.text));

            hash.update([b'{']);
            for YamlEntry { key, node, .. } in sorted {
                add_text(hash, &key.text);
                let name = key.text.as_str();
                if !SECRETS.contains(&name) && !FILE_FIELDS.contains(&name) {
                    add_node(hash, node);
                }
            }
            hash.update([b'}']);
        }
    }
}

fn add_text(hash: &mut Sha256, text: &str) {
    hash.update([b'"']);
    // A file has at most 1 MiB.
    hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
    hash.update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn fingerprint(text: &str, secret: &str) -> String {
        let env = |name: &str| match name {
            "LIMIT" => Some("7".to_owned()),
            _ => Some(secret.to_owned()),
        };
        let config = Config::parse(text, "tollgate.yaml", &env);
        config.expect("valid").fingerprint.to_string()
    }

    #[test]
    fn only_values_count() {
        let limit = "algorithm: fixed_window, limit: 7, window: 1m";
        let text = format!("limits: [{{ name: api, key: [user], {limit} }}]");
        let same = [
            format!("# Comments and layout.\nlimits:\n- {{ name: \"api\", key: [user], {limit} }}"),
            format!("limits: [{{ {limit}, key: [user], name: api }}]"),
            text.replace("limit: 7", "limit: \"${LIMIT}\""),
        ];
        let first = fingerprint(&text, "");
        assert_eq!(first.len(), 16);
        for other in same {
            assert_eq!(fingerprint(&other, ""), first, "{other}");
        }

        for other in [
            text.replace("limit: 7", "limit: 8"),
            text.replace("[user]", "[user, tenant]"),
            format!("{text}\nheaders: {{ legacy: false }}"),
        ] {
            assert_ne!(fingerprint(&other, ""), first, "{other}");
        }
    }

    #[test]
    fn files_of_a_replica_do_not_count() {
        let limit = "name: api, key: [user], algorithm: fixed_window, limit: 7, window: 1m";
        let text = format!(
            "audit_log: {{ denials: first, to: \"/var/log/tollgate-${{A}}/denials\" }}\n\
             limits: [{{ {limit} }}]"
        );
        let [one, two] = ["1", "2"].map(|replica| fingerprint(&text, replica));
        assert_eq!(one, two);
        assert_ne!(one, fingerprint(&text.replace("first", "every"), "1"));
    }

    #[test]
    fn secrets_do_not_count() {
        let limit = "name: api, key: [user], algorithm: fixed_window, limit: 7, window: 1m";
        let text = format!(
            "store: {{ type: redis, endpoints: [\"redis://:${{A}}@host\"] }}\n\
             hash_keys: [user]\nhash_secret: ${{A}}\n\
             server: {{ tokens: [{{ name: a, token: \"${{A}}\" }}] }}\n\
             limits: [{{ {limit} }}]"
        );
        let secrets = ["a-secret-of-this-replica", "another-one-of-the-other"];
        let [a, b] = secrets.map(|secret| fingerprint(&text, secret));
        assert_eq!(a, b);
        assert_ne!(
            a,
            fingerprint(&text.replace("[user]", "[tenant]"), secrets[0])
        );
    }
}
