//! The values of a header.

use std::borrow::Cow;

use super::FieldValues;

/// White space around the value of a header and between its words: what JavaScript or Python trim.
/// Both read the bytes as Latin-1; the byte 0xA0 alone is not UTF-8, so it arrives as U+FFFD.
const WHITE_SPACE: [char; 11] = [
    ' ', '\t', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\x1f', '\u{85}', '\u{a0}', '\u{fffd}',
];

/// The different values of a header. Each line has one.
///
/// White space around a value is removed. The credentials of `Authorization` and
/// `Proxy-Authorization` are read without their scheme: it has many spellings, and many servers
/// ignore it. Where several words follow the scheme, servers use the first or the last, so both are
/// returned, and the parameters `token` and `username`. Credentials of the scheme Basic have one spelling for each way to decode them.
///
/// ```
/// use tollgate_subject::header_values;
///
/// let values = header_values("authorization", ["bearer  t-1 ".into(), "Bearer t-2".into()]);
/// assert_eq!(values.as_slice(), ["t-1", "t-2"]);
/// ```
pub fn header_values<'v>(
    name: &str,
    lines: impl IntoIterator<Item = Cow<'v, str>>,
) -> FieldValues<'v> {
    let mut values = FieldValues::default();

    for line in lines {
        if has_credentials(name) {
            push_credentials(&mut values, line);
        } else {
            values.push(trimmed(line));
        }
    }
    values
}

/// The different lines of a header, without white space around them, for comparing them with
/// patterns.
///
/// Credentials are also returned with their scheme in its usual form: `bearer  t` is `Bearer t`,
/// too.
///
/// ```
/// use tollgate_subject::header_lines;
///
/// let lines = header_lines("authorization", ["bearer  t-1".into()]);
/// assert_eq!(lines.as_slice(), ["bearer  t-1", "Bearer t-1"]);
/// ```
pub fn header_lines<'v>(
    name: &str,
    lines: impl IntoIterator<Item = Cow<'v, str>>,
) -> FieldValues<'v> {
    let forms = lines.into_iter().flat_map(|line| {
        let line = trimmed(line);
        let usual = has_credentials(name).then(|| usual_form(&line)).flatten();
        [Some(line), usual.map(Cow::Owned)].into_iter().flatten()
    });
    forms.collect()
}

/// Credentials with a capitalised scheme and one space after it. `None` if there is no scheme.
fn usual_form(line: &str) -> Option<String> {
    let (scheme, credentials) = line.split_once(WHITE_SPACE)?;
    let (first, rest) = scheme.split_at_checked(1)?;
    let scheme = first.to_ascii_uppercase() + &rest.to_ascii_lowercase();
    Some(scheme + " " + credentials.trim_matches(WHITE_SPACE))
}

/// Whether a header holds credentials.
fn has_credentials(name: &str) -> bool {
    ["authorization", "proxy-authorization"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

/// The lines of a header that a proxy has joined with commas, as Envoy does. Of more than two
/// lines, the first and the last: servers use one of these.
///
/// Headers whose values contain commas themselves, such as `Accept`, are not split.
///
/// ```
/// use tollgate_subject::joined_lines;
///
/// assert_eq!(joined_lines("x-api-key", "k-1,k-2".into()).as_slice(), ["k-1", "k-2"]);
/// assert_eq!(joined_lines("accept", "text/html,*/*".into()).as_slice(), ["text/html,*/*"]);
/// ```
pub fn joined_lines<'v>(name: &str, text: Cow<'v, str>) -> FieldValues<'v> {
    match (text.split_once(','), text.rsplit_once(',')) {
        (Some((first, _)), Some((_, last))) if !contains_commas(name) => [first, last]
            .into_iter()
            .map(|line| Cow::Owned(line.to_owned()))
            .collect(),
        _ => std::iter::once(text).collect(),
    }
}

/// Whether the values of a header contain commas.
fn contains_commas(name: &str) -> bool {
    const PREFIXES: [&str; 6] = [
        "accept",
        "access-",
        "content-",
        "if-",
        "sec-",
        "x-forwarded-",
    ];
    const NAMES: [&str; 18] = [
        "baggage",
        "cache-control",
        "connection",
        "cookie",
        "date",
        "expect",
        "forwarded",
        "link",
        "pragma",
        "prefer",
        "priority",
        "range",
        "referer",
        "te",
        "tracestate",
        "trailer",
        "user-agent",
        "via",
    ];

    let name = name.to_ascii_lowercase();
    NAMES.contains(&&*name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Adds the credentials after the scheme. A single word has no scheme.
fn push_credentials<'v>(values: &mut FieldValues<'v>, line: Cow<'v, str>) {
    let line = trimmed(line);
    if let Some((scheme, credentials)) = line.split_once(WHITE_SPACE)
        && scheme.eq_ignore_ascii_case("basic")
    {
        return push_basic(values, credentials);
    }
    let mut words = line
        .split(WHITE_SPACE)
        .filter(|word| !word.is_empty())
        .skip(1);
    let Some(first) = words.next() else {
        return values.push(line);
    };

    let last = words.last().unwrap_or(first);
    let parameters = ["token", "username"].map(|name| parameter(&line, name));
    let texts = [Some(first), Some(last)].into_iter().chain(parameters);
    for text in texts.flatten() {
        values.push(text.to_owned().into());
    }
}

/// The value of a parameter such as `token="t"`, without its quotes.
fn parameter<'l>(credentials: &'l str, name: &str) -> Option<&'l str> {
    let mut parameters = credentials
        .split([',', ' ', '\t'])
        .filter_map(|text| text.split_once('='));
    let (_, value) = parameters.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
    Some(value.trim_matches('"'))
}

/// Adds the credentials of the scheme Basic in their shortest spelling. Base64 is decoded leniently:
/// servers leave out other characters, accept `-` and `_` for `+` and `/`, end at the padding or leave
/// it out.
fn push_basic(values: &mut FieldValues<'_>, credentials: &str) {
    let padded = credentials.trim_matches(WHITE_SPACE);
    let unpadded = padded.split('=').next().unwrap_or_default();

    for text in [unpadded, padded] {
        for is_url_safe in [false, true] {
            values.push(shortest_base64(text, is_url_safe).into());
        }
    }
    // Not Base64 at all.
    if values.as_slice().is_empty() {
        values.push(padded.to_owned().into());
    }
}

/// The characters of a Base64 text that are decoded. The last one counts only as far as it is part
/// of a byte.
fn shortest_base64(text: &str, is_url_safe: bool) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |byte: u8| match byte {
        b'-' if is_url_safe => Some(62),
        b'_' if is_url_safe => Some(63),
        _ => ALPHABET.iter().position(|known| *known == byte),
    };
    let mut digits: Vec<usize> = text.bytes().filter_map(digit).collect();

    let partial = match digits.len() % 4 {
        // A single character is less than a byte.
        1 => {
            digits.pop();
            0
        }
        2 => 0b1111,
        3 => 0b11,
        _ => 0,
    };
    if let Some(last) = digits.last_mut() {
        *last &= !partial;
    }
    digits
        .iter()
        .map(|digit| char::from(ALPHABET[*digit]))
        .collect()
}

fn trimmed(line: Cow<'_, str>) -> Cow<'_, str> {
    match line {
        Cow::Borrowed(line) => trim(line).into(),
        Cow::Owned(line) => trim(&line).to_owned().into(),
    }
}

/// Removes white space. A value that has nothing else but bytes that are not text stays as it is:
/// an empty value would count as missing.
fn trim(line: &str) -> &str {
    let line = line.trim_matches([' ', '\t']);
    match line.trim_matches(WHITE_SPACE) {
        "" => line,
        trimmed => trimmed,
    }
}
