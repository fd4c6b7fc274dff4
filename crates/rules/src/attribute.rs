//! Attributes: the named properties of a request that conditions, keys, tiers and costs refer to.

use std::fmt;
use std::str::FromStr;

/// The maximum length of an attribute name, in bytes.
pub const ATTRIBUTE_NAME_MAX: usize = 128;

/// The name of a request attribute: `client_ip`, `header:x-api-key`, or a custom name that the
/// caller supplies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attribute {
    name: Box<str>,
    kind: AttributeKind,
}

/// Where the value of an attribute comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AttributeKind {
    /// `client_ip`: the client's address. IPv6 addresses are grouped by prefix.
    ClientIp,
    /// `method`: the HTTP method, in upper case.
    Method,
    /// `path`: the normalised path.
    Path,
    /// `host`: the host in lower case, without the port.
    Host,
    /// `header:<name>`: a request header. The name is in lower case.
    Header,
    /// `query:<name>`: a query parameter.
    Query,
    /// `cookie:<name>`: a cookie.
    Cookie,
    /// Any other name: a custom attribute that the caller supplies.
    Custom,
}

/// The attributes without a prefix that have a fixed meaning.
const BUILT_IN: [(&str, AttributeKind); 4] = [
    ("client_ip", AttributeKind::ClientIp),
    ("method", AttributeKind::Method),
    ("path", AttributeKind::Path),
    ("host", AttributeKind::Host),
];

/// The prefixes before the colon.
const PREFIXES: [(&str, AttributeKind); 3] = [
    ("header", AttributeKind::Header),
    ("query", AttributeKind::Query),
    ("cookie", AttributeKind::Cookie),
];

impl Attribute {
    /// The full name as written in a configuration, such as `header:x-api-key`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the value comes from.
    pub const fn kind(&self) -> AttributeKind {
        self.kind
    }

    /// Whether the client itself sends the value, as a header, query parameter or cookie.
    pub const fn is_field(&self) -> bool {
        matches!(
            self.kind,
            AttributeKind::Header | AttributeKind::Query | AttributeKind::Cookie
        )
    }

    /// The name of the header, query parameter or cookie; for all other kinds the full name.
    pub fn field(&self) -> &str {
        self.name
            .split_once(':')
            .map_or(&self.name, |(_, field)| field)
    }
}

impl FromStr for Attribute {
    type Err = AttributeError;

    fn from_str(name: &str) -> Result<Self, AttributeError> {
        if name.is_empty() || name.len() > ATTRIBUTE_NAME_MAX {
            return Err(AttributeError::Length(name.len()));
        }

        let kind = match name.split_once(':') {
            Some((prefix, field)) => prefixed_kind(name, prefix, field)?,
            None => plain_kind(name)?,
        };
        let name = if kind == AttributeKind::Header {
            name.to_ascii_lowercase().into()
        } else {
            name.into()
        };
        Ok(Self { name, kind })
    }
}

/// The kind of a name with a colon.
fn prefixed_kind(name: &str, prefix: &str, field: &str) -> Result<AttributeKind, AttributeError> {
    let found = name.to_owned();
    let Some((_, kind)) = PREFIXES.iter().find(|(known, _)| *known == prefix) else {
        return Err(AttributeError::Prefix(found));
    };

    // Headers and cookies are HTTP tokens. Query parameters may contain any character.
    let is_token = |c: char| c.is_ascii_graphic() && !"\"(),/:;<=>?@[\\]{}".contains(c);
    if field.is_empty() || !(field.chars().all(is_token) || *kind == AttributeKind::Query) {
        return Err(AttributeError::Field(found));
    }
    Ok(*kind)
}

/// The kind of a name without a colon.
fn plain_kind(name: &str) -> Result<AttributeKind, AttributeError> {
    let found = name.to_owned();
    let letters_and_digits = |text: &str| {
        let mut text = text.to_ascii_lowercase();
        text.retain(|c| c.is_ascii_alphanumeric());
        text
    };
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);

    let wanted = letters_and_digits(name);
    match BUILT_IN
        .iter()
        .find(|(built_in, _)| letters_and_digits(built_in) == wanted)
    {
        Some((built_in, kind)) if *built_in == name => Ok(*kind),
        // `client-ip` or `clientIP` is a typo of a built-in attribute, not a custom one.
        Some((suggestion, _)) => Err(AttributeError::Spelling { found, suggestion }),
        None if name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(is_valid) =>
        {
            Ok(AttributeKind::Custom)
        }
        None if name.contains('(') => Err(AttributeError::Function(found)),
        None => Err(AttributeError::Character(found)),
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The reason why a text is not a valid attribute name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttributeError {
    /// The name is empty or too long.
    #[error("an attribute name must be 1 to {ATTRIBUTE_NAME_MAX} bytes long, found {0}")]
    Length(usize),
    /// The prefix before the colon is unknown.
    #[error("invalid attribute {0:?}: the prefix must be `header`, `query` or `cookie`")]
    Prefix(String),
    /// The part after the colon is empty or has an invalid character.
    #[error(
        "invalid attribute {0:?}: expected the name of a header, query parameter or cookie \
         after the colon"
    )]
    Field(String),
    /// The name is almost that of a built-in attribute.
    #[error("unknown attribute {found:?}; did you mean `{suggestion}`?")]
    Spelling {
        /// The name.
        found: String,
        /// The built-in attribute that it resembles.
        suggestion: &'static str,
    },
    /// A function where only an attribute is allowed.
    #[error("invalid attribute {0:?}: functions such as lower(email) are only for keys")]
    Function(String),
    /// A custom name has a character that is not allowed.
    #[error(
        "invalid attribute {0:?}: a custom attribute must start with a letter and contain only \
         letters, digits, `_`, `-` and `.`"
    )]
    Character(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_determine_the_kind() {
        let kind = |name: &str| {
            name.parse::<Attribute>()
                .map(|attribute| (attribute.kind(), attribute.field().to_owned()))
        };

        assert_eq!(
            kind("client_ip"),
            Ok((AttributeKind::ClientIp, "client_ip".into()))
        );
        assert_eq!(
            kind("header:X-Api-Key"),
            Ok((AttributeKind::Header, "x-api-key".into()))
        );
        assert_eq!(
            kind("query:Page"),
            Ok((AttributeKind::Query, "Page".into()))
        );
        assert_eq!(
            kind("tenant.id"),
            Ok((AttributeKind::Custom, "tenant.id".into()))
        );
    }

    #[test]
    fn errors_for_invalid_names_say_what_is_expected() {
        let error = |name: &str| name.parse::<Attribute>().unwrap_err().to_string();
        assert_eq!(
            error("client-ip"),
            r#"unknown attribute "client-ip"; did you mean `client_ip`?"#
        );
        assert!(error("headr:x").contains("the prefix must be `header`"));
        assert!(error("header:").contains("after the colon"));
        assert!(error("header:a b").contains("after the colon"));
        assert!(error("9lives").contains("must start with a letter"));
        assert!(error("").contains("found 0"));
    }
}
