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

/// Parses a file. The error has the line and says what is wrong.
pub(super) fn parse(text: &str) -> Result<Vec<Directive>, (usize, String)> {
    let mut scanner = Scanner {
        rest: text,
        line: 1,
        directives: 0,
    };
    scanner.read_block(0)
}

/// What ends a directive, or one of its words.
enum DirectiveToken {
    Word(String),
    Semicolon,
    Open,
    Close,
    End,
}

struct Scanner<'t> {
    rest: &'t str,
    line: usize,
    directives: usize,
}

impl Scanner<'_> {
    /// Reads directives up to the end of a block; at depth 0, up to the end of the file.
    fn read_block(&mut self, depth: usize) -> Result<Vec<Directive>, (usize, String)> {
        let mut directives = Vec::new();
        let mut words = Vec::new();
        let mut start = self.line;
        loop {
            let token = self.next_token()?;
            match token {
                DirectiveToken::Word(word) => {
                    if words.is_empty() {
                        start = self.line;
                    }
                    words.push(word);
                }
                DirectiveToken::Semicolon | DirectiveToken::Open if words.is_empty() => {
                    return self.error("found `;` or `{` without a directive before it");
                }
                DirectiveToken::Semicolon => {
                    directives.push(self.directive(start, &mut words, Vec::new())?);
                }
                DirectiveToken::Open if depth == DEPTH_MAX => {
                    return self.error("nested too deeply");
                }
                DirectiveToken::Open => {
                    let opened = std::mem::take(&mut words);
                    let line = start;
                    let block = self.read_block(depth + 1)?;
                    words = opened;
                    directives.push(self.directive(line, &mut words, block)?);
                }
                DirectiveToken::Close if !words.is_empty() => {
                    return self.error("found `}`; expected `;` after the directive before it");
                }
                DirectiveToken::Close if depth > 0 => return Ok(directives),
                DirectiveToken::Close => return self.error("found `}` without a `{` before it"),
                DirectiveToken::End if depth > 0 => {
                    return self.error("the file ends inside of a block");
                }
                DirectiveToken::End if !words.is_empty() => {
                    return self.error("the file ends inside of a directive; expected `;`");
                }
                DirectiveToken::End => return Ok(directives),
            }
        }
    }

    fn directive(
        &mut self,
        line: usize,
        words: &mut Vec<String>,
        block: Vec<Directive>,
    ) -> Result<Directive, (usize, String)> {
        self.directives += 1;
        if self.directives > DIRECTIVES_MAX {
            return self.error("too many directives");
        }
        Ok(Directive {
            line,
            words: std::mem::take(words),
            block,
        })
    }

    fn error<T>(&self, message: &str) -> Result<T, (usize, String)> {
        Err((self.line, message.to_owned()))
    }

    fn next_token(&mut self) -> Result<DirectiveToken, (usize, String)> {
        self.skip_blanks();
        let Some(first) = self.rest.chars().next() else {
            return Ok(DirectiveToken::End);
        };

        match first {
            ';' => Ok(self.take(1, DirectiveToken::Semicolon)),
            '{' => Ok(self.take(1, DirectiveToken::Open)),
            '}' => Ok(self.take(1, DirectiveToken::Close)),
            '"' | '\'' => self.quoted(first),
            _ => Ok(self.plain()),
        }
    }

    fn take(&mut self, bytes: usize, token: DirectiveToken) -> DirectiveToken {
        self.rest = &self.rest[bytes..];
        token
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) {
        loop {
            let trimmed = self.rest.trim_start();
            let skipped = &self.rest[..self.rest.len() - trimmed.len()];
            self.line += skipped.matches('\n').count();
            self.rest = trimmed;

            if !self.rest.starts_with('#') {
                return;
            }
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.rest = &self.rest[end..];
        }
    }

    /// A word in quotes. A backslash protects a quote or a backslash.
    fn quoted(&mut self, quote: char) -> Result<DirectiveToken, (usize, String)> {
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
                let lines = self.rest[..index].matches('\n').count();
                self.rest = &self.rest[index + 1..];
                self.line += lines;
                return Ok(DirectiveToken::Word(word));
            } else {
                word.push(c);
            }
        }
        self.error("a quote is not closed")
    }

    /// A word without quotes. `${name}` is part of a word.
    fn plain(&mut self) -> DirectiveToken {
        let (mut word, mut is_escaped, mut is_variable) = (String::new(), false, false);
        let mut end = self.rest.len();
        for (index, c) in self.rest.char_indices() {
            if is_escaped {
                word.push(c);
                is_escaped = false;
                continue;
            }
            match c {
                '\\' => {
                    is_escaped = true;
                    word.push(c);
                }
                '{' if word.ends_with('$') => {
                    is_variable = true;
                    word.push(c);
                }
                '}' if is_variable => {
                    is_variable = false;
                    word.push(c);
                }
                ';' | '{' | '}' => {
                    end = index;
                    break;
                }
                c if c.is_whitespace() => {
                    end = index;
                    break;
                }
                c => word.push(c),
            }
        }
        self.line += self.rest[..end].matches('\n').count();
        self.rest = &self.rest[end..];
        DirectiveToken::Word(word)
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
