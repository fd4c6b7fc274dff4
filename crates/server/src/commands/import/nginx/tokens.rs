//! Splits an nginx configuration into directives, by nginx's own rules: words end at white space,
//! `;`, `{` and `}`; quotes and `\` protect characters; `#` starts a comment at the start of a word.

/// The most directives of a file, and the deepest nesting.
const DIRECTIVES_MAX: usize = 100_000;
const DEPTH_MAX: usize = 32;

/// A directive with its words, the first of which is its name, and the directives of its block.
#[derive(Debug)]
pub(super) struct Directive {
    /// The line of its first word, from 1.
    pub(super) line: usize,
    pub(super) words: Vec<String>,
    pub(super) block: Vec<Directive>,
}

impl Directive {
    pub(super) fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// All words, for messages.
    pub(super) fn text(&self) -> String {
        self.words.join(" ")
    }

    /// The value of a word that starts with `prefix`, such as `zone=`.
    pub(super) fn parameter(&self, prefix: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(prefix))
    }
}

/// The line of a mistake, and what is wrong.
pub(super) type SyntaxError = (usize, String);

/// Parses a file.
pub(super) fn parse(text: &str) -> Result<Vec<Directive>, SyntaxError> {
    let mut scanner = Scanner {
        rest: text,
        line: 1,
        directives: 0,
    };
    scanner.read_block(0)
}

struct Scanner<'t> {
    rest: &'t str,
    line: usize,
    directives: usize,
}

impl Scanner<'_> {
    /// Reads directives up to the end of a block; at depth 0, up to the end of the file.
    fn read_block(&mut self, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
        let mut directives = Vec::new();
        loop {
            let (line, words) = self.words()?;
            let end = self.rest.chars().next();
            self.advance(usize::from(end.is_some()));

            let block = match (end, words.is_empty()) {
                (Some('}'), true) if depth > 0 => return Ok(directives),
                (None, true) if depth == 0 => return Ok(directives),
                (Some('}'), true) => return self.error("found `}` without a `{` before it"),
                (Some('}'), false) => {
                    return self.error("found `}`; expected `;` after the directive before it");
                }
                (Some(_), true) => {
                    return self.error("found `;` or `{` without a directive before it");
                }
                (None, _) if depth > 0 => return self.error("the file ends inside of a block"),
                (None, _) => {
                    return self.error("the file ends inside of a directive; expected `;`");
                }
                (Some('{'), false) if depth == DEPTH_MAX => return self.error("nested too deeply"),
                (Some('{'), false) => self.read_block(depth + 1)?,
                (Some(_), false) => Vec::new(),
            };
            self.directives += 1;
            if self.directives > DIRECTIVES_MAX {
                return self.error("too many directives");
            }
            directives.push(Directive { line, words, block });
        }
    }

    /// The words before the next `;`, `{` or `}`, and the line of the first one.
    fn words(&mut self) -> Result<(usize, Vec<String>), SyntaxError> {
        self.skip_blanks();
        let (line, mut words) = (self.line, Vec::new());
        loop {
            let word = match self.rest.chars().next() {
                None | Some(';' | '{' | '}') => return Ok((line, words)),
                Some(quote @ ('"' | '\'')) => self.quoted(quote)?,
                Some(_) => self.plain(),
            };
            words.push(word);
            self.skip_blanks();
        }
    }

    fn error<T>(&self, message: &str) -> Result<T, SyntaxError> {
        Err((self.line, message.to_owned()))
    }

    fn advance(&mut self, bytes: usize) {
        let (done, rest) = self.rest.split_at(bytes);
        self.line += done.matches('\n').count();
        self.rest = rest;
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) {
        loop {
            self.advance(self.rest.len() - self.rest.trim_start().len());
            if !self.rest.starts_with('#') {
                return;
            }
            self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    /// A word in quotes. A backslash protects a quote or a backslash.
    fn quoted(&mut self, quote: char) -> Result<String, SyntaxError> {
        let (mut word, mut is_escaped) = (String::new(), false);
        for (index, c) in self.rest.char_indices().skip(1) {
            if is_escaped {
                if c != quote && c != '\\' {
                    word.push('\\');
                }
                word.push(c);
                is_escaped = false;
            } else if c == '\\' {
                is_escaped = true;
            } else if c == quote {
                self.advance(index + 1);
                return Ok(word);
            } else {
                word.push(c);
            }
        }
        self.error("a quote is not closed")
    }

    /// A word without quotes. `${name}` is part of a word.
    fn plain(&mut self) -> String {
        let (mut is_escaped, mut is_variable, mut before) = (false, false, ' ');
        let ends = |c: char| {
            let was_escaped = is_escaped;
            is_escaped = !was_escaped && c == '\\';
            let is_end = match c {
                _ if was_escaped => false,
                '{' => before != '$',
                '}' => !is_variable,
                c => c == ';' || c.is_whitespace(),
            };
            if !was_escaped && matches!(c, '{' | '}') {
                is_variable = c == '{';
            }
            before = c;
            is_end
        };
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let word = self.rest[..end].to_owned();
        self.advance(end);
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        let directives = parse(text).unwrap();
        directives
            .into_iter()
            .map(|directive| directive.words)
            .collect()
    }

    #[test]
    fn words_follow_the_rules_of_nginx() {
        let text = "a 'b c' \"d\\\"e\"; # f;\n g${h}i#j;";
        assert_eq!(words(text), [vec!["a", "b c", "d\"e"], vec!["g${h}i#j"]]);
        assert_eq!(
            words("location ~ \\.php$ { x; }"),
            [["location", "~", "\\.php$"]]
        );
    }

    #[test]
    fn errors_have_their_line() {
        for (text, line, message) in [
            ("a;\n}", 2, "found `}` without"),
            ("a {\n b;\n", 3, "inside of a block"),
            ("a", 1, "expected `;`"),
            ("\n'a", 2, "a quote is not closed"),
            ("a { b }", 1, "expected `;` after"),
            ("{", 1, "without a directive"),
        ] {
            let (found, error) = parse(text).unwrap_err();
            assert_eq!(found, line, "{text}");
            assert!(error.contains(message), "{error}");
        }
        assert!(parse(&"a{".repeat(1_000)).is_err());
    }
}
