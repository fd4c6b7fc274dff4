//! The product's code as text: which files it has, without comments and unit tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The Rust files below a folder, without tests, examples and build scripts, in order.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut pending = vec![folder.to_owned()];

    while let Some(folder) = pending.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if ["tests", "examples", "benches", "tests.rs", "build.rs"].contains(&name.as_ref()) {
                continue;
            }
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }

    let tests: BTreeSet<PathBuf> = files.iter().flat_map(|file| test_modules(file)).collect();
    files.retain(|file| {
        !tests
            .iter()
            .any(|test| file.starts_with(test) || file.with_extension("") == *test)
    });
    files.sort();
    files
}

/// The modules that a file declares for tests only, as paths without an extension.
fn test_modules(file: &Path) -> Vec<PathBuf> {
    let code = fs::read_to_string(file).unwrap_or_default();
    let is_root = |name: &str| matches!(name, "mod" | "lib" | "main");
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let folder = if is_root(&stem) {
        file.parent().unwrap_or(file).to_owned()
    } else {
        file.with_extension("")
    };

    let lines: Vec<&str> = code.lines().collect();
    let declared = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
    declared
        .filter_map(|pair| pair[1].strip_suffix(';')?.rsplit_once("mod "))
        .map(|(_, name)| folder.join(name))
        .collect()
}

/// The code without comments and without unit tests at its end.
pub(crate) fn product_code(text: &str) -> String {
    let text = match text.find("\n#[cfg(test)]\nmod tests {") {
        Some(end) => &text[..end],
        None => text,
    };
    without_comments(text)
}

/// Leaves out comments, but not what looks like one in a string.
fn without_comments(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;

    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
            continue;
        } else if rest.starts_with("/*") {
            rest = rest.split_once("*/").map_or("", |(_, after)| after);
            continue;
        } else if first == '"' {
            string_length(rest)
        } else if let Some(length) = raw_string_length(rest, code.chars().last()) {
            length
        } else if first == '\'' {
            char_length(rest)
        } else {
            first.len_utf8()
        };
        code.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    code
}

fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a raw string; `None` if there is none here.
fn raw_string_length(text: &str, before: Option<char>) -> Option<usize> {
    if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let hashes = text.strip_prefix('r')?;
    let content = hashes.trim_start_matches('#');
    let end = format!("\"{}", &hashes[..hashes.len() - content.len()]);
    let content = content.strip_prefix('"')?;
    let length = content
        .find(&end)
        .map_or(content.len(), |at| at + end.len());
    Some(text.len() - content.len() + length)
}

/// The length of a character literal, or of the quote of a lifetime.
fn char_length(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some(_)) => text[2..].find('\'').map_or(1, |at| at + 3),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_tests_are_left_out_and_strings_stay() {
        let text = "let a = \"// no \\\" comment\"; // one\nlet b = r#\"/* \" */\"#;/* two */\n\
                    let c: &'static str = f('\"', '\\'', b);\n#[cfg(test)]\nmod tests {\n";
        assert_eq!(
            product_code(text),
            "let a = \"// no \\\" comment\"; \nlet b = r#\"/* \" */\"#;\n\
             let c: &'static str = f('\"', '\\'', b);"
        );
    }
}
