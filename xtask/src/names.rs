//! `cargo xtask lint`, step `names`: type names are unique nouns of the field.
//!
//! A reader should know what a type is for before opening it, and find one type behind a name. The
//! check reads declarations as text. It covers the product: every crate but the benchmark and the
//! test kit, without unit tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::source;

/// Names that may be declared more than once, because they are roles that the module qualifies.
const ROLES: [&str; 7] = [
    "Builder", "Config", "Error", "Inner", "Kind", "Metrics", "State",
];

/// Crates that are not the product.
const TOOLS: [&str; 2] = ["bench", "testkit"];

/// The share of names that may be participles or adverbs, in percent.
const PARTICIPLES_PERCENT: usize = 2;

/// Participles, adverbs and prepositions that no ending gives away.
const IRREGULAR: [&str; 34] = [
    "Again", "Alone", "Away", "Chosen", "Done", "Drawn", "Found", "Given", "Gone", "Held", "Here",
    "Kept", "Later", "Left", "Lent", "Lost", "Made", "Meant", "Met", "Now", "Once", "Own", "Put",
    "Said", "Seen", "Sent", "Shown", "Spent", "Taken", "Then", "There", "Together", "Told",
    "Without",
];

/// Nouns that end like participles.
const NOUNS: [&str; 7] = ["Feed", "Need", "Ring", "Seed", "Speed", "String", "Warning"];

/// A type declaration.
#[derive(Debug)]
struct Declaration {
    name: String,
    /// File and line, for the error.
    position: String,
    /// True when it derives `thiserror::Error`.
    is_error: bool,
}

/// Returns one line for every name that breaks a rule.
pub(crate) fn problems(root: &Path) -> Vec<String> {
    let mut declarations = Vec::new();
    let mut problems = Vec::new();

    for file in product_files(root) {
        let position = file
            .strip_prefix(root)
            .unwrap_or(&file)
            .display()
            .to_string();
        match fs::read_to_string(&file) {
            Ok(source) => {
                declarations.extend(declarations_in(&source, &position));
                problems.extend(constructors_named_of(&source, &position));
            }
            Err(error) => problems.push(format!("{position}: {error}")),
        }
    }

    if declarations.is_empty() {
        problems.push("no type declaration was found; are the crates still in crates/?".to_owned());
    }
    problems.extend(duplicates(&declarations));
    problems.extend(participles(&declarations));
    problems.extend(errors_without_suffix(&declarations));
    problems.extend(glossary(root, &declarations));
    problems
}

/// The files of the product.
fn product_files(root: &Path) -> Vec<PathBuf> {
    let mut files = source::files(&root.join("crates"));
    let is_tool = |file: &PathBuf| {
        TOOLS
            .iter()
            .any(|tool| file.starts_with(root.join("crates").join(tool)))
    };
    files.retain(|file| !is_tool(file));
    files
}

/// Types that the glossary of `ARCHITECTURE.md` names and the product does not have.
fn glossary(root: &Path, declarations: &[Declaration]) -> Vec<String> {
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap_or_default();
    let names = glossary_types(&page);
    if names.is_empty() {
        return vec!["ARCHITECTURE.md: no glossary with types was found".to_owned()];
    }

    let is_declared = |name: &str| {
        let mut names = declarations.iter().map(|declaration| &declaration.name);
        names.any(|declared| declared == name)
    };
    let unknown = names.into_iter().filter(|name| !is_declared(name));
    unknown
        .map(|name| format!("ARCHITECTURE.md: the glossary names the unknown type `{name}`"))
        .collect()
}

/// The type names in the last column of the table below the heading `Glossary`.
fn glossary_types(page: &str) -> Vec<&str> {
    let lines = page.lines().skip_while(|line| *line != "## Glossary");
    let rows = lines
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
        .filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.trim_end_matches([' ', '|']).rsplit('|').next());
    cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter(|name| name.starts_with(|letter: char| letter.is_ascii_uppercase()))
        .collect()
}

/// The declarations before the first `#[cfg(test)]` module of a file.
fn declarations_in(source: &str, file: &str) -> Vec<Declaration> {
    let mut found = Vec::new();
    let mut is_error = false;
    let mut lines = source.lines().enumerate().peekable();

    while let Some((index, line)) = lines.next() {
        let starts_tests = line == "#[cfg(test)]"
            && lines
                .peek()
                .is_some_and(|(_, next)| next.starts_with("mod ") && next.ends_with('{'));
        if starts_tests {
            break;
        }
        if line.trim_start().starts_with("#[derive(") {
            is_error = line.contains("thiserror::Error");
        }
        if let Some(name) = declared_name(line) {
            let position = format!("{file}:{}", index + 1);
            found.push(Declaration {
                name: name.to_owned(),
                position,
                is_error,
            });
            is_error = false;
        }
    }

    found
}

/// The name that a line declares. Associated types are indented, so `type` counts only at the
/// start.
fn declared_name(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let code = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => code,
    };

    let (keyword, rest) = code.split_once(' ')?;
    let is_declaration = match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => !line.starts_with(' '),
        _ => false,
    };

    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let name = &rest[..end.unwrap_or(rest.len())];
    let is_type_name = name.starts_with(|letter: char| letter.is_ascii_uppercase());
    (is_declaration && is_type_name).then_some(name)
}

fn duplicates(declarations: &[Declaration]) -> Vec<String> {
    let mut positions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Declaration { name, position, .. } in declarations {
        positions.entry(name).or_default().push(position);
    }

    // Declarations in one file are variants of one type, for example with and without a feature.
    let in_several_files = |at: &[&str]| {
        let mut files = at.iter().filter_map(|position| position.split(':').next());
        let first = files.next();
        files.any(|file| Some(file) != first)
    };
    let repeated = positions
        .into_iter()
        .filter(|(name, at)| in_several_files(at) && !ROLES.contains(name));
    repeated
        .map(|(name, at)| {
            format!(
                "the type name `{name}` is declared {} times: {}",
                at.len(),
                at.join(", ")
            )
        })
        .collect()
}

fn participles(declarations: &[Declaration]) -> Vec<String> {
    let found: Vec<&Declaration> = declarations
        .iter()
        .filter(|declaration| is_participle(&declaration.name))
        .collect();
    if found.len() * 100 <= declarations.len() * PARTICIPLES_PERCENT {
        return Vec::new();
    }

    let names: Vec<String> = found
        .iter()
        .map(|declaration| format!("{} ({})", declaration.name, declaration.position))
        .collect();
    vec![format!(
        "{} of {} type names are participles or adverbs, more than {PARTICIPLES_PERCENT} %: {}",
        found.len(),
        declarations.len(),
        names.join(", ")
    )]
}

/// True when the last word of a name in camel case is a participle or an adverb.
fn is_participle(name: &str) -> bool {
    let start = name.rfind(|letter: char| letter.is_ascii_uppercase());
    let word = &name[start.unwrap_or(0)..];
    let has_ending = (word.ends_with("ed") || word.ends_with("ing")) && !NOUNS.contains(&word);
    has_ending || IRREGULAR.contains(&word)
}

fn errors_without_suffix(declarations: &[Declaration]) -> Vec<String> {
    let wrong = declarations
        .iter()
        .filter(|declaration| declaration.is_error && !declaration.name.ends_with("Error"));
    wrong
        .map(|Declaration { name, position, .. }| {
            format!("{position}: the error type `{name}` must end in `Error`")
        })
        .collect()
}

fn constructors_named_of(source: &str, file: &str) -> Vec<String> {
    let lines = source.lines().enumerate();
    let wrong = lines.filter(|(_, line)| {
        let is_of = line.contains("fn of(") || line.contains("fn of<");
        is_of && line.contains("-> Self")
    });
    wrong
        .map(|(index, _)| {
            format!(
                "{file}:{}: the constructor `of` must be `new`, `from_*`, `with_*` or `for_*`",
                index + 1
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<Declaration> {
        let declare = |(index, name): (usize, &&str)| Declaration {
            name: (*name).to_owned(),
            position: format!("{index}.rs:1"),
            is_error: false,
        };
        names.iter().enumerate().map(declare).collect()
    }

    #[test]
    fn declarations_are_found_and_those_of_tests_are_not() {
        let source = "pub struct Limit;\n\
            pub(crate) enum Quota<'a> {\n    Struct,\n}\n    trait Store {}\ntype Keys = u8;\n    type Output = u8;\n\
            impl Limit {}\n#[cfg(test)]\nmod tests {\n    struct Scene;\n}";
        let names: Vec<String> = declarations_in(source, "x.rs")
            .into_iter()
            .map(|declaration| declaration.name)
            .collect();
        assert_eq!(names, ["Limit", "Quota", "Store", "Keys"]);
    }

    #[test]
    fn a_name_is_declared_twice_only_when_it_is_a_role() {
        assert!(duplicates(&named(&["Limit", "Error", "Error"])).is_empty());
        let found = duplicates(&named(&["Limit", "Key", "Limit"]));
        assert_eq!(
            found,
            ["the type name `Limit` is declared 2 times: 0.rs:1, 2.rs:1"]
        );
    }

    #[test]
    fn participles_and_adverbs_are_told_from_nouns() {
        for name in [
            "Said",
            "AtOnce",
            "Asking",
            "Chosen",
            "Explained",
            "LimitShown",
            "Later",
        ] {
            assert!(is_participle(name), "{name}");
        }
        for name in [
            "SelectedLimit",
            "Seed",
            "String",
            "PendingCall",
            "Decision",
            "Once2",
        ] {
            assert!(!is_participle(name), "{name}");
        }
    }

    #[test]
    fn a_few_participles_pass_and_more_do_not() {
        let mut names = vec!["Limit"; 49];
        names.push("Asked");
        assert!(participles(&named(&names)).is_empty());
        names.push("Told");
        assert_eq!(participles(&named(&names)).len(), 1);
    }

    #[test]
    fn the_glossary_names_types_that_exist() {
        let page = "## Glossary\n\n| Word | Meaning | Type |\n|---|---|---|\n\
            | limit | a `rule` | `Limit`, owned: `LimitBuf` |\n| unit | what is counted | |\n## Next\n| `Other` |";
        assert_eq!(glossary_types(page), ["Limit", "LimitBuf"]);
    }

    #[test]
    fn error_types_end_in_error() {
        let source = "#[derive(Debug, thiserror::Error)]\n#[error(\"x\")]\nstruct Fault;\n\
            #[derive(Debug, thiserror::Error)]\nenum KeyError {}";
        let found = errors_without_suffix(&declarations_in(source, "x.rs"));
        assert_eq!(
            found,
            ["x.rs:3: the error type `Fault` must end in `Error`"]
        );
    }

    #[test]
    fn constructors_are_not_named_of() {
        let source =
            "fn of(key: &Key) -> Self {\nfn of(&self) -> &Shard {\nfn of<K>(key: K) -> Self {";
        assert_eq!(constructors_named_of(source, "x.rs").len(), 2);
    }
}
