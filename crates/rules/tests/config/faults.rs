//! Checks the error messages of invalid configurations against `data/faults.txt`.
//!
//! `TOLLGATE_BLESS=1 cargo test -p tollgate-rules` writes the current messages to the file. Review
//! the diff: users read these messages.

use super::{parse, with_limit};

const TABLE: &str = include_str!("../data/faults.txt");
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/faults.txt");

/// An invalid configuration and its errors.
struct InvalidFile<'t> {
    title: &'t str,
    text: &'t str,
    errors: &'t str,
}

fn invalid_files() -> Vec<InvalidFile<'static>> {
    let invalid_file = |text: &'static str| {
        let (title, rest) = text.split_once('\n').unwrap();
        let (text, errors) = rest.split_once("----\n").unwrap();
        InvalidFile {
            title,
            text,
            errors,
        }
    };

    TABLE.split("==== ").skip(1).map(invalid_file).collect()
}

/// The errors of a configuration. One without `limits` gets a valid limit appended.
fn errors(text: &str) -> String {
    let is_whole = text.contains("limits") || text.contains("# whole");
    match if is_whole {
        parse(text)
    } else {
        with_limit(text)
    } {
        Ok(_) => "no errors\n".into(),
        Err(error) => format!("{error}\n"),
    }
}

#[test]
fn invalid_files_have_the_expected_errors() {
    let files = invalid_files();
    if std::env::var_os("TOLLGATE_BLESS").is_some() {
        let head = TABLE.split("==== ").next().unwrap_or_default();
        let blessed = files.iter().map(|file| {
            format!(
                "==== {}\n{}----\n{}\n",
                file.title,
                file.text,
                errors(file.text)
            )
        });
        std::fs::write(FILE, head.to_owned() + &blessed.collect::<String>()).unwrap();
        return;
    }

    assert!(files.len() >= 60, "{}", files.len());
    for InvalidFile {
        title,
        text,
        errors: expected,
    } in files
    {
        assert_eq!(
            errors(text),
            expected.trim_end().to_owned() + "\n",
            "{title}"
        );
    }
}

/// Lists that are too long for the table.
#[test]
fn a_standing_key_or_list_that_is_too_long_is_an_error() {
    let errors_of = |more: &str| {
        let limit = "name: a, key: [user], algorithm: sliding_log, limit: 1, window: 1s";
        errors(&format!("limits: [{{ {limit}, {more} }}]"))
    };
    let keys = |count: usize| vec!["{ user: ann }"; count].join(", ");
    assert_eq!(
        errors_of(&format!("block: {{ keys: [{}] }}", keys(1_000))),
        "no errors\n"
    );
    let error = errors_of(&format!("block: {{ keys: [{}] }}", keys(1_001)));
    assert!(error.contains("limits[a].block.keys: "), "{error}");
    assert!(error.contains("1001"), "{error}");

    // A key that no request can have would be ignored.
    let value = "x".repeat(2_000);
    let error = errors_of(&format!("exempt: {{ keys: [{{ user: {value} }}] }}"));
    assert!(
        error.contains("limits[a].exempt.keys[0]: key has"),
        "{error}"
    );
    let hashed = format!(
        "hash_keys: [user]\nhash_secret: sixteen bytes or more\n\
         limits: [{{ name: a, key: [user], algorithm: sliding_log, limit: 1, window: 1s, \
         exempt: {{ keys: [{{ user: {value} }}] }} }}]"
    );
    assert_eq!(errors(&hashed), "no errors\n");
}
