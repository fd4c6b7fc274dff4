//! Conditions and variables of Limitador: `req.method == 'GET'`, the older `req.method == GET`, and
//! those expressions of the newer syntax (CEL) that are patterns of attributes.

use super::super::outline::attribute;

/// A condition as `match` has it: an attribute and the patterns of which one must match.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AttributePatterns {
    pub(super) attribute: String,
    pub(super) patterns: Vec<String>,
}

/// Parses a condition: comparisons with `&&` between them. None for any other expression.
pub(super) fn parse(condition: &str) -> Option<Vec<AttributePatterns>> {
    let terms = split_outside_quotes(condition, "&&")?;
    terms.into_iter().map(parse_term).collect()
}

/// A comparison: equality, one of a list, the start of a text, or alternatives of these.
fn parse_term(term: &str) -> Option<AttributePatterns> {
    let term = without_parentheses(term.trim());
    let alternatives = split_outside_quotes(term, "||")?;
    if alternatives.len() > 1 {
        let mut all = alternatives.into_iter().map(parse_term);
        return all.next()?.and_then(|first| all.try_fold(first, merge));
    }

    let (name, patterns) = if let Some((left, right)) = split_once(term, "==") {
        // The text may come first, and the older syntax has no quotes.
        match (unquoted(left), unquoted(right)) {
            (_, Some(value)) => (left, vec![literal(value)?]),
            (Some(value), None) => (right, vec![literal(value)?]),
            (None, None) if is_plain(right) => (left, vec![literal(right)?]),
            (None, None) => return None,
        }
    } else if let Some((name, list)) = split_once(term, " in ") {
        let list = list.strip_prefix('[')?.strip_suffix(']')?;
        let values = split_outside_quotes(list, ",")?.into_iter();
        let patterns = values.map(|value| literal(unquoted(value)?));
        (name, patterns.collect::<Option<_>>()?)
    } else {
        let (name, start) = term.strip_suffix(')')?.split_once(".startsWith(")?;
        (name, vec![literal(unquoted(start)?)? + "**"])
    };
    Some(AttributePatterns {
        attribute: variable(name)?,
        patterns,
    })
}

/// Two alternatives of the same attribute.
fn merge(
    mut first: AttributePatterns,
    next: Option<AttributePatterns>,
) -> Option<AttributePatterns> {
    let next = next.filter(|next| next.attribute == first.attribute)?;
    first.patterns.extend(next.patterns);
    Some(first)
}

/// A text that a pattern matches literally: not empty, and without stars.
fn literal(value: &str) -> Option<String> {
    let is_literal = !value.is_empty() && !value.contains(['*', '\\']);
    is_literal.then(|| value.to_owned())
}

/// A word of the older syntax, which has no quotes.
fn is_plain(text: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    !text.is_empty() && text.chars().all(is_word)
}

/// The text between quotes, if that is all there is.
fn unquoted(text: &str) -> Option<&str> {
    let text = text.trim();
    ['\'', '"'].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(quote)).then_some(inner)
    })
}

/// Removes parentheses around a whole term.
fn without_parentheses(term: &str) -> &str {
    let inner = term
        .strip_prefix('(')
        .and_then(|term| term.strip_suffix(')'));
    let inner = inner.filter(|inner| !inner.contains(['(', ')']));
    inner.map_or(term, str::trim)
}

fn split_once<'t>(text: &'t str, separator: &str) -> Option<(&'t str, &'t str)> {
    match split_outside_quotes(text, separator)?.as_slice() {
        [left, right] => Some((left.trim(), right.trim())),
        _ => None,
    }
}

/// Splits a text at a separator that is not between quotes. None if a quote is not closed.
fn split_outside_quotes<'t>(text: &'t str, separator: &str) -> Option<Vec<&'t str>> {
    let (mut parts, mut start, mut quote) = (Vec::new(), 0, None);
    for (index, c) in text.char_indices() {
        match quote {
            Some(open) if open == c => quote = None,
            None if matches!(c, '\'' | '"') => quote = Some(c),
            None if index >= start && text[index..].starts_with(separator) => {
                parts.push(&text[start..index]);
                start = index + separator.len();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    quote.is_none().then_some(parts)
}

/// The attribute of a variable: `user_id`, `descriptors[0].user_id` or `descriptors[0]['user_id']`.
pub(super) fn variable(variable: &str) -> Option<String> {
    let variable = variable.trim();
    let Some(rest) = variable.strip_prefix("descriptors[0]") else {
        return attribute(variable);
    };
    let indexed = rest
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    attribute(
        indexed
            .and_then(unquoted)
            .or_else(|| rest.strip_prefix('.'))?,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(condition: &str) -> Option<Vec<(String, Vec<String>)>> {
        let conditions = parse(condition)?.into_iter();
        Some(conditions.map(|c| (c.attribute, c.patterns)).collect())
    }

    #[test]
    fn conditions_are_patterns_of_attributes() {
        for (condition, attribute, patterns) in [
            ("req.method == 'GET'", "req.method", vec!["GET"]),
            ("req.method == \"GET\"", "req.method", vec!["GET"]),
            ("'GET' == req.method", "req.method", vec!["GET"]),
            ("x == 5", "x", vec!["5"]),
            ("x == foobar", "x", vec!["foobar"]),
            ("x == 'a && b'", "x", vec!["a && b"]),
            ("descriptors[0]['a.b'] == 'c'", "a.b", vec!["c"]),
            ("descriptors[0].plan == 'c'", "plan", vec!["c"]),
            (
                "descriptors[0].m in ['GET', \"HEAD\"]",
                "m",
                vec!["GET", "HEAD"],
            ),
            ("(m == 'GET' || m == 'HEAD')", "m", vec!["GET", "HEAD"]),
            (
                "descriptors[0]['p'].startsWith('/v1/')",
                "p",
                vec!["/v1/**"],
            ),
            (
                "remote_address == '10.0.0.1'",
                "client_ip",
                vec!["10.0.0.1"],
            ),
        ] {
            let patterns = patterns.into_iter().map(str::to_owned).collect();
            let expected = Some(vec![(attribute.to_owned(), patterns)]);
            assert_eq!(parsed(condition), expected, "{condition}");
        }

        let both = parsed("m == 'GET' && descriptors[0].plan == 'free'");
        assert_eq!(both.map(|both| both.len()), Some(2));
    }

    #[test]
    fn other_expressions_are_not_conditions() {
        for condition in [
            "",
            "x",
            "x != 'a'",
            "!(x == 'a')",
            "x == ''",
            "x == 'a*'",
            "x == 'a\\n'",
            "x == y()",
            "x == 'a' || y == 'b'",
            "x > 5",
            "size(x) == 1",
            "x == 'a",
            "x in y",
            "descriptors[1].x == 'a'",
            "domain == 'a'",
            "x.matches('a')",
        ] {
            assert_eq!(parsed(condition), None, "{condition}");
        }
    }
}
