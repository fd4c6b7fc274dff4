//! A rule: which part of a request it changes, and how. The format is that of `corpus.txt`.

/// The most rules of a file.
const RULES_MAX: usize = 10_000;

/// One line of the corpus.
#[derive(Clone, Debug)]
pub(crate) struct VariantRule {
    /// A name for what the rule does, such as `dot-segment`.
    pub(crate) class: String,
    /// The part of the request that it changes.
    pub(super) place: Place,
    /// The text with its placeholders, escapes resolved.
    pub(super) text: Vec<u8>,
}

/// The part of a request that a rule changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Slash,
    Before,
    After,
    Letter,
    Cookie,
    Header,
    Query,
}

impl Place {
    const ALL: [(&'static str, Self); 7] = [
        ("slash", Self::Slash),
        ("before", Self::Before),
        ("after", Self::After),
        ("letter", Self::Letter),
        ("cookie", Self::Cookie),
        ("header", Self::Header),
        ("query", Self::Query),
    ];
}

/// Parses rules. An error names the line.
pub(crate) fn parse(text: &str) -> Result<Vec<VariantRule>, String> {
    let mut rules = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let rule = parse_line(line).map_err(|reason| format!("line {}: {reason}", number + 1))?;
        rules.push(rule);
    }

    if rules.len() > RULES_MAX {
        return Err(format!(
            "{} rules; at most {RULES_MAX} are supported",
            rules.len()
        ));
    }
    Ok(rules)
}

fn parse_line(line: &str) -> Result<VariantRule, String> {
    let expected = "expected CLASS KIND TEXT, such as `dot-segment slash /./`";
    let (class, rest) = line.split_once(char::is_whitespace).ok_or(expected)?;
    let (kind, text) = rest
        .trim_start()
        .split_once(char::is_whitespace)
        .ok_or(expected)?;

    let place = Place::ALL.iter().find(|(name, _)| *name == kind);
    let (_, place) = place.ok_or_else(|| {
        let names: Vec<&str> = Place::ALL.iter().map(|(name, _)| *name).collect();
        format!(
            "unknown kind {kind:?}; expected one of {}",
            names.join(", ")
        )
    })?;

    Ok(VariantRule {
        class: class.to_owned(),
        place: *place,
        text: unescape(text.trim())?,
    })
}

/// Resolves `\xHH`, `\t`, `\n`, `\s` and `\\`.
fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());

        let hex = after.strip_prefix('x').and_then(|digits| digits.get(..2));
        let (byte, length) = match (after.as_bytes().first(), hex) {
            (Some(b't'), _) => (b'\t', 1),
            (Some(b'n'), _) => (b'\n', 1),
            (Some(b's'), _) => (b' ', 1),
            (Some(b'\\'), _) => (b'\\', 1),
            (Some(b'x'), Some(hex)) => {
                let byte = u8::from_str_radix(hex, 16);
                (
                    byte.map_err(|_| format!("\\x{hex} is not a byte; expected two hex digits"))?,
                    3,
                )
            }
            _ => return Err("unknown escape; expected \\xHH, \\t, \\n, \\s or \\\\".to_owned()),
        };
        bytes.push(byte);
        rest = after.get(length..).unwrap_or_default();
    }

    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_bytes() {
        assert_eq!(unescape(r"a\xff\t\s\\n\n").unwrap(), b"a\xff\t \\n\n");
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, wanted) in [
            ("# a\nslash", "line 2: expected CLASS KIND TEXT"),
            ("a slash", "line 1: expected CLASS KIND TEXT"),
            (
                "a slahs x",
                "line 1: unknown kind \"slahs\"; expected one of slash, before",
            ),
            (r"a slash \q", "line 1: unknown escape"),
            (r"a slash \xzz", r"line 1: \xzz is not a byte"),
            (r"a slash \x1", "line 1: unknown escape"),
            ("a slash \\\u{e4}", "line 1: unknown escape"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(wanted), "{error}");
        }
    }
}
