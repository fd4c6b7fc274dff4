//! The values of a query parameter.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::FieldValues;

/// The different values of a query parameter. `query` is the part after the question mark.
///
/// Percent escapes and `+` are decoded, in names too. `;` separates parameters like `&`, and a
/// fragment (`#`) is removed. `name[]`, `name[0]` and `[name]` are the same parameter as `name`,
/// because servers read them as lists.
///
/// ```
/// use tollgate_subject::query_values;
///
/// let query = "page=2&key=a+b&%6Bey=a%20b;key[]=c#top";
/// assert_eq!(query_values("key", query).as_slice(), ["a b", "c"]);
/// ```
pub fn query_values<'v>(name: &str, query: &'v str) -> FieldValues<'v> {
    let query = query.split('#').next().unwrap_or_default();
    let pairs = query
        .split(['&', ';'])
        .filter_map(|pair| pair.split_once('='));

    pairs
        .filter(|(found, _)| is_named(&decoded(found), name))
        .map(|(_, value)| decoded(value))
        .collect()
}

/// Whether a parameter has this name. PHP ends names at a NUL, and removes spaces before them.
fn is_named(found: &str, name: &str) -> bool {
    if found == name {
        return true;
    }

    let found = found.split('\0').next().unwrap_or_default().trim();
    let found = found.trim_start_matches('[');
    let base = found.split(['[', ']']).next().unwrap_or_default();
    base == name
}

/// Decodes `+` and percent escapes, as forms encode them.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return text.into();
    }

    let text = text.replace('+', " ");
    percent_decode_str(&text)
        .decode_utf8_lossy()
        .into_owned()
        .into()
}
