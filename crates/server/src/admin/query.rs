//! The question of `/admin/keys`: a limit, and the attributes that make up a key.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::http::{ATTRIBUTES_MAX, ApiError, NamedAttributes, is_same_attribute};

/// What is asked about.
#[derive(Debug)]
pub(super) struct KeyQuery<'q> {
    pub(super) limit: Cow<'q, str>,
    pub(super) attributes: NamedAttributes<'q>,
}

impl<'q> KeyQuery<'q> {
    /// `limit=<name>&<attribute>=<value>`, both sides percent-encoded; `+` is a plus, as it is in
    /// addresses of mail. The first `limit` names the limit, and a second one is the attribute of
    /// that name.
    pub(super) fn read(query: &'q str) -> Result<Self, ApiError> {
        let mut limit = None;
        let mut attributes = NamedAttributes::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if limit.is_none() && name == "limit" {
                limit = Some(value);
                continue;
            }
            if attributes
                .0
                .iter()
                .any(|(known, _)| is_same_attribute(known, &name))
            {
                let name: String = name.chars().take(80).collect();
                return Err(ApiError::bad_request(
                    "parameter-twice",
                    format!("the attribute {name:?} stands twice"),
                ));
            }
            if attributes.0.len() == ATTRIBUTES_MAX {
                let detail = format!("more than {ATTRIBUTES_MAX} attributes");
                return Err(ApiError::bad_request("too-many-attributes", detail));
            }
            attributes.0.push((name, value));
        }
        let limit = limit.ok_or_else(|| {
            let detail =
                "nothing says which limit; ask as in /admin/keys?limit=login&client_ip=203.0.113.7";
            ApiError::bad_request("no-limit", detail)
        })?;
        Ok(Self { limit, attributes })
    }
}

fn decoded(text: &str) -> Result<Cow<'_, str>, ApiError> {
    percent_decode_str(text).decode_utf8().map_err(|_| {
        let text: String = text.chars().take(80).collect();
        ApiError::bad_request(
            "not-text",
            format!("{text:?} is not UTF-8 once its percent signs are decoded"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit, and attributes with their values.
    type Asked = (String, Vec<(String, String)>);

    fn read(query: &str) -> Result<Asked, &'static str> {
        let KeyQuery { limit, attributes } = KeyQuery::read(query).map_err(|fault| fault.code)?;
        let owned =
            |(name, value): (Cow<'_, str>, Cow<'_, str>)| (name.into_owned(), value.into_owned());
        Ok((
            limit.into_owned(),
            attributes.0.into_iter().map(owned).collect(),
        ))
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_question_names_a_limit_and_attributes() {
        let asked = read(
            "limit=login&client_ip=203.0.113.7&email=ann%2Bx+y%40example.com&header%3Ax-id=1%262",
        );
        let attributes = pairs(&[
            ("client_ip", "203.0.113.7"),
            ("email", "ann+x+y@example.com"),
            ("header:x-id", "1&2"),
        ]);
        assert_eq!(asked, Ok(("login".into(), attributes)));
        assert_eq!(
            read("a=b&&limit=x&c"),
            Ok(("x".into(), pairs(&[("a", "b"), ("c", "")])))
        );
        assert_eq!(
            read("limit=x&limit=gold"),
            Ok(("x".into(), pairs(&[("limit", "gold")])))
        );
    }

    #[test]
    fn a_question_that_cannot_be_read_says_why() {
        assert_eq!(read(""), Err("no-limit"));
        assert_eq!(read("client_ip=1"), Err("no-limit"));
        assert_eq!(read("limit=a&b=1&b=2"), Err("parameter-twice"));
        assert_eq!(
            read("limit=a&header:A=1&header:a=2"),
            Err("parameter-twice")
        );
        assert_eq!(read("limit=%ff"), Err("not-text"));
        let many: String =
            (0..=ATTRIBUTES_MAX).fold("limit=a".into(), |query, n| format!("{query}&a{n}=1"));
        assert_eq!(read(&many), Err("too-many-attributes"));
    }
}
