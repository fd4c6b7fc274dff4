//! The elements of a pattern.

/// The maximum length of a pattern, in bytes.
pub(super) const PATTERN_MAX: usize = 255;

/// An element of a parsed pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Byte(u8),
    /// The slash of `/**`. It may be absent together with the double star after it.
    OptionalSlash,
    Star,
    DoubleStar,
}

/// Parses a pattern. Two stars are never adjacent in the result, and `/**/**` is `/**`, so that
/// matching need not follow chains of them.
pub(super) fn parse(text: &str) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        let token = match (byte, tokens.last()) {
            (b'*', Some(Token::Star | Token::DoubleStar)) => {
                tokens.pop();
                Token::DoubleStar
            }
            (b'*', _) => Token::Star,
            _ => Token::Byte(byte),
        };
        tokens.push(token);
    }

    mark_optional_slashes(&mut tokens);
    let repeats = |at: usize| {
        let pairs = [Token::OptionalSlash, Token::DoubleStar];
        let is_pair = |at| tokens.get(at..at + 2).is_some_and(|two| *two == pairs);
        is_pair(at) && is_pair(at + 2)
    };
    let is_kept = |at: &usize| !repeats(*at) && !at.checked_sub(1).is_some_and(repeats);
    let kept = (0..tokens.len()).filter(is_kept).map(|at| tokens[at]);
    kept.collect()
}

/// Finds `/**` at the end of a segment, whose slash is optional.
fn mark_optional_slashes(tokens: &mut [Token]) {
    for at in 0..tokens.len() {
        let ends = matches!(tokens.get(at + 2), None | Some(Token::Byte(b'/')));
        if let Some([slash @ Token::Byte(b'/'), Token::DoubleStar]) = tokens.get_mut(at..at + 2)
            && ends
        {
            *slash = Token::OptionalSlash;
        }
    }
}
