//! `inline_limits`, and the limits that requests bring along: read like those of the file.

use serde_json::Value as Json;
use tollgate::Rule;
use tollgate::algorithm::AMOUNT_MAX;
use tollgate_subject::{Case, Glob};

use super::diagnostic::{Diagnostics, SourcePosition};
use super::field::{ConfigField, FieldMap};
use super::limits::{self, LimitDefaults};
use super::names::{INLINE_LIMIT, INLINE_LIMITS, INLINE_POLICIES};
use super::path;
use super::scalar::ScalarValue;
use super::values::{ValueError, ValueKind};
use super::yaml::{DocumentNode, YamlEntry, YamlValue};

const NAMES_MAX: usize = 100;
const NAME_PATTERN: ValueKind<Glob> = ValueKind::new(
    "pattern",
    "expected the name of a limit, perhaps with stars, such as chat or llm-*",
    |text| Glob::new(text, Case::Sensitive).map_err(ValueError::message),
);

/// Which limits requests may bring along, and the settings of the file that apply to them.
#[derive(Clone, Debug)]
pub struct InlineLimits {
    policy: InlinePolicy,
    defaults: LimitDefaults,
}

/// Which limits requests may bring along.
#[derive(Clone, Debug, Default)]
enum InlinePolicy {
    #[default]
    Allow,
    Deny,
    Restrict {
        /// The names that are allowed. Empty allows every name.
        names: Vec<Glob>,
        /// The largest `limit` or `capacity`.
        limit_max: u64,
    },
}

/// Why a request may not bring a limit along.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InlineLimitError {
    /// The configuration does not allow this limit.
    #[error("{0}")]
    NotAllowed(String),
    /// The limit is not valid.
    #[error("{0}")]
    Invalid(String),
}

impl InlineLimits {
    pub(super) fn read(root: &FieldMap<'_>, defaults: LimitDefaults) -> Self {
        let policy = root.read("inline_limits", read_policy);
        Self {
            policy: policy.unwrap_or_default(),
            defaults,
        }
    }

    /// Whether no request may bring a limit along.
    pub const fn is_denied(&self) -> bool {
        matches!(self.policy, InlinePolicy::Deny)
    }

    /// Reads a limit that a request brings along: a JSON object with the fields that a limit of the
    /// file has, without those that select requests. `index` is its position in the request's list,
    /// for errors.
    ///
    /// ```
    /// use tollgate_rules::Config;
    ///
    /// let inline = Config::built_in().inline_limits;
    /// let chat = r#"{"name": "chat", "algorithm": "sliding_log", "limit": 9, "window": "10s"}"#;
    /// assert_eq!(inline.parse(chat, 0)?.quota().limit(), 9);
    ///
    /// let error = inline.parse(&chat.replace("10s", "10"), 0).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "limits[chat].window: invalid duration \"10\": the unit is missing; write 10s or 10ms"
    /// );
    /// # Ok::<(), tollgate_rules::InlineLimitError>(())
    /// ```
    pub fn parse(&self, json: &str, index: usize) -> Result<Rule, InlineLimitError> {
        self.forbid_if_denied()?;

        let mut json: Json = serde_json::from_str(json)
            .map_err(|error| InlineLimitError::Invalid(format!("invalid limit: {error}")))?;
        if let Some(members) = json.as_object_mut() {
            // Many languages write a value that is not set as null.
            members.retain(|name, value| !value.is_null() || !INLINE_LIMIT.contains(&&**name));
        }
        let node = to_node(&json);
        let diagnostics = Diagnostics::new("");
        let field = ConfigField::new(&node, path::item("limits", index, &node), &diagnostics);

        let rule = FieldMap::new(&field, INLINE_LIMIT)
            .and_then(|mapping| limits::read_inline(&mapping, self.defaults));
        match rule {
            Some(rule) if diagnostics.is_clean() => {
                self.permit(rule.name(), rule.quota().limit())?;
                Ok(rule)
            }
            _ => Err(InlineLimitError::Invalid(diagnostics.into_error().first())),
        }
    }

    fn forbid_if_denied(&self) -> Result<(), InlineLimitError> {
        if self.is_denied() {
            let reason = "the configuration denies inline limits (`inline_limits: deny`); send \
                          the names of configured limits";
            return Err(InlineLimitError::NotAllowed(reason.into()));
        }
        Ok(())
    }

    /// Checks whether a request may bring along a limit with this name and this `limit` or
    /// `capacity`.
    ///
    /// ```
    /// use tollgate_rules::Config;
    ///
    /// let config = "
    /// inline_limits: { limit_max: 100 }
    /// limits: [{ name: api, key: [user], algorithm: fixed_window, limit: 10, window: 1m }]";
    /// let config = Config::parse(config, "tollgate.yaml", &|_| None)?;
    /// assert!(config.inline_limits.permit("chat", 100).is_ok());
    /// assert!(config.inline_limits.permit("chat", 101).is_err());
    /// # Ok::<(), tollgate_rules::ConfigError>(())
    /// ```
    pub fn permit(&self, name: &str, limit: u64) -> Result<(), InlineLimitError> {
        self.forbid_if_denied()?;
        let InlinePolicy::Restrict { names, limit_max } = &self.policy else {
            return Ok(());
        };

        if !names.is_empty() && !names.iter().any(|glob| glob.matches(name)) {
            let shown: Vec<&str> = names.iter().take(8).map(Glob::as_str).collect();
            return Err(InlineLimitError::NotAllowed(format!(
                "the configuration does not allow the inline limit \"{name}\"; `inline_limits` \
                 allows {}",
                shown.join(", ")
            )));
        }
        if limit > *limit_max {
            return Err(InlineLimitError::NotAllowed(format!(
                "the inline limit \"{name}\" is {limit}; `inline_limits` allows at most {limit_max}"
            )));
        }
        Ok(())
    }
}

fn read_policy(field: &ConfigField<'_>) -> Option<InlinePolicy> {
    if field.scalar().is_some() {
        let is_allowed = field.choice(INLINE_POLICIES)?;
        return Some(if is_allowed {
            InlinePolicy::Allow
        } else {
            InlinePolicy::Deny
        });
    }

    let mapping = FieldMap::new(field, INLINE_LIMITS)?;
    if mapping.len() == 0 {
        field.error("the mapping is empty; add `names` or `limit_max`, or write allow or deny");
    }
    let names = mapping.read("names", read_names);
    Some(InlinePolicy::Restrict {
        names: names.unwrap_or_default(),
        limit_max: mapping.integer_or("limit_max", 1..=AMOUNT_MAX, AMOUNT_MAX),
    })
}

fn read_names(field: &ConfigField<'_>) -> Option<Vec<Glob>> {
    let expected = "expected a list of names, such as [chat, llm-*]";
    field.at_most(NAMES_MAX, field.items(expected)?.len(), "names")?;
    let names = field.values(expected, &NAME_PATTERN)?;
    if names.is_empty() {
        field.error("the list is empty; add a name, or write `inline_limits: deny`");
    }
    Some(names)
}

/// A JSON value as a node of a file, so that the readers of the file can read it. The depth is
/// bounded by the JSON parser.
fn to_node(json: &Json) -> DocumentNode {
    let position = SourcePosition::WHOLE_FILE;
    let value = match json {
        Json::Array(items) => YamlValue::List(items.iter().map(to_node).collect()),
        Json::Object(members) => {
            let entry = |(name, value): (&String, &Json)| YamlEntry {
                key: ScalarValue::new(name.clone(), false),
                position,
                node: to_node(value),
            };
            YamlValue::Mapping(members.iter().map(entry).collect())
        }
        Json::String(text) => YamlValue::Scalar(ScalarValue::new(text.clone(), false)),
        plain => YamlValue::Scalar(ScalarValue::new(plain.to_string(), true)),
    };
    DocumentNode::new(position, value)
}
