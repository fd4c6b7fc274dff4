//! The query string of `/admin/keys`: a limit, and the attributes of a key.

use std::borrow::Cow;
use tollgate_gate::api::{ATTRIBUTES_MAX, ApiError, NamedAttributes, is_same_attribute};

use percent_encoding::percent_decode_str;

/// A parsed query string.
#[derive(Debug)]
pub(super) struct KeyQuery<'q> {
    /// The name of the limit.
    pub(super) limit: Cow<'q, str>,
    /// The attributes of the request, each at most once.
    pub(super) attributes: NamedAttributes<'q>,
}

impl<'q> KeyQuery<'q> {
    /// Parses `limit=<name>&<attribute>=<value>..`. The first `limit` names the limit; a second
    /// one is an attribute called `limit`.
    pub(super) fn parse(query: &'q str) -> Result<Self, ApiError> {
        let mut limit = None;
        let mut attributes = NamedAttributes::default();

        for parameter in parameters(query) {
            let (name, value) = parameter?;
            if limit.is_none() && name == "limit" {
                limit = Some(value);
                continue;
            }

            let NamedAttributes(known) = &mut attributes;
            if known
                .iter()
                .any(|(known, _)| is_same_attribute(known, &name))
            {
                let detail = format!("duplicate attribute {:?}", shortened(&name));
                return Err(ApiError::bad_request("parameter-twice", detail));
            }
            if known.len() == ATTRIBUTES_MAX {
                let detail = format!("too many attributes: at most {ATTRIBUTES_MAX} are allowed");
                return Err(ApiError::bad_request("too-many-attributes", detail));
            }
            known.push((name, value));
        }

        let limit = limit.ok_or_else(|| {
            let detail = "missing parameter `limit`; expected \
                          /admin/keys?limit=<name>&<attribute>=<value>";
            ApiError::bad_request("no-limit", detail)
        })?;
        Ok(Self { limit, attributes })
    }
}

/// The parameters of a query. Names and values are percent-encoded; `+` is a plus sign, because
/// mail addresses contain it.
pub(super) fn parameters(
    query: &str,
) -> impl Iterator<Item = Result<(Cow<'_, str>, Cow<'_, str>), ApiError>> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode(name)?, decode(value)?))
    })
}

/// The value of the only parameter that a query may have. `expected` is for the error.
pub(super) fn only_parameter<'q>(
    query: &'q str,
    parameter: &str,
    expected: &str,
) -> Result<Option<Cow<'q, str>>, ApiError> {
    let mut found = None;
    for pair in parameters(query) {
        let (name, value) = pair?;
        if name != parameter || found.is_some() {
            let name = shortened(&name);
            let detail = format!("unexpected parameter {name:?}; expected {expected} or none");
            return Err(ApiError::bad_request("unknown-parameter", detail));
        }
        found = Some(value);
    }
    Ok(found)
}

fn decode(text: &str) -> Result<Cow<'_, str>, ApiError> {
    percent_decode_str(text).decode_utf8().map_err(|_| {
        let text = shortened(text);
        let detail = format!("{text:?} is not valid UTF-8 after percent-decoding");
        ApiError::bad_request("not-text", detail)
    })
}

/// The start of a text of the request, for an error.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of the limit, and the attributes with their values.
    type ParsedQuery = (String, Vec<(String, String)>);

    fn parse(query: &str) -> Result<ParsedQuery, &'static str> {
        let KeyQuery { limit, attributes } = KeyQuery::parse(query).map_err(|error| error.code)?;
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
    fn a_query_names_a_limit_and_attributes() {
        let parsed = parse(
            "limit=login&client_ip=203.0.113.7&email=ann%2Bx+y%40example.com&header%3Ax-id=1%262",
        );
        let attributes = pairs(&[
            ("client_ip", "203.0.113.7"),
            ("email", "ann+x+y@example.com"),
            ("header:x-id", "1&2"),
        ]);
        assert_eq!(parsed, Ok(("login".into(), attributes)));

        assert_eq!(
            parse("a=b&&limit=x&c"),
            Ok(("x".into(), pairs(&[("a", "b"), ("c", "")])))
        );
        assert_eq!(
            parse("limit=x&limit=gold"),
            Ok(("x".into(), pairs(&[("limit", "gold")])))
        );
    }

    #[test]
    fn invalid_queries_have_an_error_code() {
        assert_eq!(parse(""), Err("no-limit"));
        assert_eq!(parse("client_ip=1"), Err("no-limit"));
        assert_eq!(parse("limit=a&b=1&b=2"), Err("parameter-twice"));
        assert_eq!(
            parse("limit=a&header:A=1&header:a=2"),
            Err("parameter-twice")
        );
        assert_eq!(parse("limit=%ff"), Err("not-text"));

        let many: String =
            (0..=ATTRIBUTES_MAX).fold("limit=a".into(), |query, n| format!("{query}&a{n}=1"));
        assert_eq!(parse(&many), Err("too-many-attributes"));
    }
}
