//! `cargo xtask lint`, step `links`: every link in the documentation leads somewhere.
//!
//! Checks relative links and their anchors in the Markdown files at the root and in `docs/`. Links
//! to other hosts are not followed: the check must pass without a network.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns one line for every link that does not resolve.
pub(crate) fn problems(root: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    let pages = pages(root);
    if pages.is_empty() {
        problems.push("no Markdown file was found at the root or in docs/".to_owned());
    }

    for page in pages {
        let shown = page
            .strip_prefix(root)
            .unwrap_or(&page)
            .display()
            .to_string();
        match fs::read_to_string(&page) {
            Ok(text) => problems.extend(
                links(&text)
                    .into_iter()
                    .filter_map(|(line, target)| Some((line, broken(&page, &target)?)))
                    .map(|(line, problem)| format!("{shown}:{line}: {problem}")),
            ),
            Err(error) => problems.push(format!("{shown}: {error}")),
        }
    }

    problems
}

fn pages(root: &Path) -> Vec<PathBuf> {
    let directories = [root.to_owned(), root.join("docs")];
    let entries = directories
        .iter()
        .flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten());
    let mut pages: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages
}

/// The targets of a page with their lines, from Markdown links and from HTML attributes.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for (start, end) in [
            ("](", ')'),
            ("src=\"", '"'),
            ("srcset=\"", '"'),
            ("href=\"", '"'),
        ] {
            let targets = line
                .split(start)
                .skip(1)
                .filter_map(|rest| rest.split(end).next());
            found.extend(targets.map(|target| (number, target.trim().to_owned())));
        }
    }
    found
}

/// The lines outside code blocks, without code spans.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let spans = line.split('`').enumerate();
            let outside = spans.map(|(span, text)| if span % 2 == 0 { text } else { "code" });
            lines.push((index + 1, outside.collect()));
        }
    }
    lines
}

/// What is wrong with a link, if anything.
fn broken(page: &Path, target: &str) -> Option<String> {
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    if is_elsewhere || target.is_empty() {
        return None;
    }

    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = match path {
        "" => page.to_owned(),
        path => page.parent()?.join(path),
    };
    if !file.exists() {
        return Some(format!("the link `{target}` leads to no file"));
    }

    let is_page = file.extension().is_some_and(|extension| extension == "md");
    if anchor.is_empty() || !is_page {
        return None;
    }
    let text = fs::read_to_string(&file).unwrap_or_default();
    let is_known = anchors(&text).contains(anchor);
    (!is_known).then(|| format!("the link `{target}` leads to no heading of that page"))
}

/// The anchors that headings get on a rendered page.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code && line.starts_with('#') {
            anchors.insert(slug(line.trim_start_matches('#').trim()));
        }
    }
    anchors
}

fn slug(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    let dashed = kept.map(|letter| if letter == ' ' { '-' } else { letter });
    dashed.collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_prose_are_found_and_those_in_code_are_not() {
        let text =
            "[a](b.md) and [c](d.md#e)\n```text\n[x](y.md)\n```\n`[p](q.md)` <img src=\"r.png\">";
        let found: Vec<String> = links(text).into_iter().map(|(_, target)| target).collect();
        assert_eq!(found, ["b.md", "d.md#e", "r.png"]);
    }

    #[test]
    fn headings_get_the_anchors_that_pages_link_to() {
        assert_eq!(
            slug("When the store is unavailable"),
            "when-the-store-is-unavailable"
        );
        assert_eq!(slug("`POST /v1/check`"), "post-v1check");
    }

    #[test]
    fn links_that_lead_nowhere_are_told_from_those_that_do() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
        for fine in [
            "README.md",
            "docs",
            "https://example.com/x",
            "mailto:a@example.com",
        ] {
            assert_eq!(broken(&page, fine), None);
        }
        assert!(broken(&page, "docs/absent.md").is_some());
        assert!(broken(&page, "README.md#no-such-heading").is_some());
    }
}
