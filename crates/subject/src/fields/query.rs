//! The values of a query parameter.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::FieldValues;

/// The different values of a query parameter. `query` is the part after the question mark.
///
/// Percent escapes and `+` are decoded, in names too. `;` and `#` separate parameters like `&`: some
/// servers ignore what follows a `#`, others do not. `name[]`, `name[0]` and `[name]` are the same
/// parameter as `name`, because servers read them as lists, and `a.b` is the same as `a_b`, because
/// PHP replaces what its variables cannot have.
///
/// ```
/// use tollgate_subject::query_values;
///
/// let query = "page=2&key=a+b&%6Bey=a%20b;key[]=c#top";
/// assert_eq!(query_values("key", query).as_slice(), ["a b", "c"]);
/// ```
pub fn query_values<'v>(name: &str, query: &'v str) -> FieldValues<'v> {
    let pairs = query
        .split(['&', ';', '#'])
        .filter_map(|pair| pair.split_once('='));

    pairs
        .filter(|(found, _)| is_named(&decoded(found), name))
        .map(|(_, value)| decoded(value))
        .collect()
}

/// Whether a parameter has this name. PHP ends names at a NUL, removes spaces and question marks
/// before them, and replaces characters.
fn is_named(found: &str, name: &str) -> bool {
    if found == name {
        return true;
    }

    let found = found.split('\0').next().unwrap_or_default();
    let found = found.trim_start_matches('?').trim();
    let listed = found.trim_start_matches('[');
    let base = listed.split(['[', ']']).next().unwrap_or_default();
    base == name
        || base.replace([' ', '.'], "_") == name
        || found.replace([' ', '.', '['], "_") == name
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
