//! Every page in `docs/` and the README: configurations are valid, commands exist, JSON is JSON.
//! Rust blocks are doctests of the library crates.

use std::fs;
use std::path::PathBuf;

use clap::Parser as _;
use testkit::certificates::Authority;
use testkit::processes::Directory;
use tollgate_server::Cli;

use super::{root, text, tollgate};

/// The first keys of YAML blocks that configure other programs.
const OTHER_PROGRAMS: [&str; 4] = [
    "rate_limits:",
    "rate_limit_service:",
    "scrape_configs:",
    "groups:",
];

/// A code block of a page.
struct Block {
    page: String,
    language: String,
    code: String,
}

fn blocks(languages: &[&str]) -> Vec<Block> {
    let docs = fs::read_dir(root().join("docs")).expect("the repository has docs/");
    let mut pages: Vec<PathBuf> = docs
        .map(|entry| entry.expect("docs/ is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.push(root().join("README.md"));
    pages.sort();

    let found = pages.iter().flat_map(|path| {
        let page = path.display().to_string();
        let content = fs::read_to_string(path).expect("a page is text");
        blocks_of(&page, &content)
    });
    found
        .filter(|block| languages.contains(&block.language.as_str()))
        .collect()
}

fn blocks_of(page: &str, content: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    // Blocks in a list are indented.
    let mut indent = 0;

    for line in content.lines() {
        match line.trim().strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(language) => {
                is_open = true;
                indent = line.len() - line.trim_start().len();
                blocks.push(Block {
                    page: page.to_owned(),
                    language: language.to_owned(),
                    code: String::new(),
                });
            }
            None if is_open => {
                let block = blocks.last_mut().expect("an open block was pushed");
                block.code.push_str(line.get(indent..).unwrap_or_default());
                block.code.push('\n');
            }
            None => {}
        }
    }

    assert!(!is_open, "{page} ends inside a code block");
    blocks
}

/// A block without limits gets one, because a configuration needs at least one.
#[test]
fn every_configuration_is_valid() {
    const LIMIT: &str =
        "limits: [{ name: a, key: [], algorithm: sliding_log, limit: 1, window: 1s }]\n";
    // `validate` reads the certificate, so there must be one.
    let directory = Directory::create();
    let files = Authority::create(directory.path(), "ca").issue("server");
    let (cert, key) = (files.certificate.display(), files.key.display());
    let file = directory.path().join("page.yaml");
    let mut validated = 0;

    for Block { page, code, .. } in blocks(&["yaml"]) {
        if OTHER_PROGRAMS.iter().any(|key| code.starts_with(key)) {
            continue;
        }
        let has_limits = code.lines().any(|line| line.starts_with("limits:"));
        let limit = if has_limits { "" } else { LIMIT };
        let code = code
            .replace("/etc/tollgate/tls.crt", &cert.to_string())
            .replace("/etc/tollgate/tls.key", &key.to_string());
        fs::write(&file, format!("{code}{limit}")).expect("the temporary directory is writable");

        let output = tollgate(&["validate", &file.display().to_string()]);
        assert!(
            output.status.success(),
            "{page}: {}\n{code}",
            text(&output.stderr)
        );
        validated += 1;
    }

    assert!(validated >= 7, "only {validated} configurations were found");
}

#[test]
fn every_command_line_is_accepted() {
    let mut parsed = 0;
    for block in blocks(&["console", "sh"]) {
        let code = block.code.replace("\\\n", " ");
        for line in code
            .lines()
            .filter_map(|line| command_line(line, &block.language))
        {
            let result = Cli::try_parse_from(words(line));
            assert!(
                result.is_ok(),
                "{}: {line}\n{}",
                block.page,
                result.unwrap_err()
            );
            parsed += 1;
        }
    }
    assert!(parsed >= 15, "only {parsed} commands were found");
}

/// The part of a line that runs `tollgate`. In a console block, lines without a prompt are output.
fn command_line<'l>(line: &'l str, language: &str) -> Option<&'l str> {
    let line = match language {
        "console" => line.strip_prefix("$ ")?,
        _ => line,
    };
    let at = line.find("tollgate ")?;
    let before = &line[..at];
    let is_command = ["", "if ", "source <("].contains(&before) || before.ends_with("release/");
    is_command.then(|| &line[at..])
}

/// The words of a simple command as a shell would pass them, up to a redirection, a pipe or a comment.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;

    for letter in line.chars() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if letter == open => quote = None,
            (None, '>' | '|' | '#' | '&' | ';' | ')') => break,
            (None, ' ') => words.push(String::new()),
            _ => words
                .last_mut()
                .expect("there is a first word")
                .push(letter),
        }
    }

    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn every_json_block_is_json() {
    let blocks = blocks(&["json"]);
    assert!(blocks.len() >= 3, "only {} blocks were found", blocks.len());
    for Block { page, code, .. } in blocks {
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(&code);
        assert!(parsed.is_ok(), "{page}: {}\n{code}", parsed.unwrap_err());
    }
}
