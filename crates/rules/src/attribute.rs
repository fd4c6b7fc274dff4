//! Attributes: what is known of a request, by name.

use std::fmt;
use std::str::FromStr;

/// The longest name of an attribute.
pub const ATTRIBUTE_NAME_MAX: usize = 128;

/// The name of something known of a request: `client_ip`, `header:x-api-key`, or a name of the
/// caller's own.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attribute {
    name: Box<str>,
    kind: AttributeKind,
}

/// Where an attribute comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AttributeKind {
    /// `client_ip`: an address, counted by prefix when it is IPv6.
    ClientIp,
    /// `method`, in upper case.
    Method,
    /// `path`, in one spelling.
    Path,
    /// `host`, in lower case and without the port.
    Host,
    /// `header:<name>`, in lower case.
    Header,
    /// `query:<name>`.
    Query,
    /// `cookie:<name>`.
    Cookie,
    /// Any other name, given by the caller.
    Own,
}

/// The attributes that every front knows by themselves.
const BUILT_IN: [(&str, AttributeKind); 4] = [
    ("client_ip", AttributeKind::ClientIp),
    ("method", AttributeKind::Method),
    ("path", AttributeKind::Path),
    ("host", AttributeKind::Host),
];

/// What stands before the colon of the others.
const PREFIXES: [(&str, AttributeKind); 3] = [
    ("header", AttributeKind::Header),
    ("query", AttributeKind::Query),
    ("cookie", AttributeKind::Cookie),
];

impl Attribute {
    /// The whole name, as in a configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it comes from.
    pub const fn kind(&self) -> AttributeKind {
        self.kind
    }

    /// What stands after the colon, and the whole name where there is none.
    pub fn field(&self) -> &str {
        match self.kind {
            AttributeKind::Header | AttributeKind::Query | AttributeKind::Cookie => self
                .name
                .split_once(':')
                .map_or(&*self.name, |(_, field)| field),
            _ => &self.name,
        }
    }
}

impl FromStr for Attribute {
    type Err = AttributeError;

    fn from_str(name: &str) -> Result<Self, AttributeError> {
        let found = || name.chars().take(ATTRIBUTE_NAME_MAX).collect::<String>();
        if name.is_empty() || name.len() > ATTRIBUTE_NAME_MAX {
            return Err(AttributeError::Length { bytes: name.len() });
        }
        if let Some((_, kind)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
            return Ok(Self {
                name: name.into(),
                kind: *kind,
            });
        }
        let Some((prefix, field)) = name.split_once(':') else {
            return own(name);
        };
        let Some((_, kind)) = PREFIXES.iter().find(|(known, _)| *known == prefix) else {
            return Err(AttributeError::Prefix { found: found() });
        };
        let is_token = |c: char| c.is_ascii_graphic() && !"\"(),/:;<=>?@[\\]{}".contains(c);
        if field.is_empty() || !(field.chars().all(is_token) || *kind == AttributeKind::Query) {
            return Err(AttributeError::Field { found: found() });
        }
        let name = if *kind == AttributeKind::Header {
            name.to_ascii_lowercase()
        } else {
            name.to_owned()
        };
        Ok(Self {
            name: name.into(),
            kind: *kind,
        })
    }
}

fn own(name: &str) -> Result<Attribute, AttributeError> {
    let found = || name.to_owned();
    let plain = |text: &str| {
        text.chars()
            .filter(char::is_ascii_alphanumeric)
            .collect::<String>()
            .to_ascii_lowercase()
    };
    if let Some((meant, _)) = BUILT_IN
        .iter()
        .find(|(built_in, _)| plain(built_in) == plain(name))
    {
        return Err(AttributeError::Spelling {
            found: found(),
            meant,
        });
    }
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(is_fine) {
        return Err(AttributeError::Character { found: found() });
    }
    Ok(Attribute {
        name: name.into(),
        kind: AttributeKind::Own,
    })
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attribute({})", self.name)
    }
}

/// Why a name is no attribute's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttributeError {
    /// Empty or too long.
    #[error("an attribute's name has {bytes} bytes; it must have 1 to {ATTRIBUTE_NAME_MAX}")]
    Length {
        /// Its length.
        bytes: usize,
    },
    /// Something else before the colon.
    #[error("{found:?} is no attribute; before the colon stands `header`, `query` or `cookie`")]
    Prefix {
        /// The name.
        found: String,
    },
    /// Nothing, or something impossible, after the colon.
    #[error(
        "{found:?} names no field; after the colon stands the name of a header, a query parameter or a cookie"
    )]
    Field {
        /// The name.
        found: String,
    },
    /// Almost the name of an attribute that every front knows.
    #[error("{found:?} is no attribute; did you mean `{meant}`?")]
    Spelling {
        /// The name.
        found: String,
        /// The attribute it resembles.
        meant: &'static str,
    },
    /// A character that no name has.
    #[error(
        "{found:?} is no attribute; a name of your own begins with a letter and has letters, digits or any of _ - ."
    )]
    Character {
        /// The name.
        found: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_where_a_value_comes_from() {
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
            Ok((AttributeKind::Own, "tenant.id".into()))
        );
    }

    #[test]
    fn wrong_names_say_what_would_be_right() {
        let error = |name: &str| name.parse::<Attribute>().unwrap_err().to_string();
        assert_eq!(
            error("client-ip"),
            r#""client-ip" is no attribute; did you mean `client_ip`?"#
        );
        assert!(error("headr:x").contains("before the colon stands `header`"));
        assert!(error("header:").contains("names no field"));
        assert!(error("header:a b").contains("names no field"));
        assert!(error("9lives").contains("begins with a letter"));
        assert!(error("").contains("has 0 bytes"));
    }
}
