//! The table of bad files: `data/faults.txt` has each with the very lines that it is told.
//!
//! `TOLLGATE_BLESS=1 cargo test -p tollgate-rules` writes what is told now into the table. Read the
//! difference: it is what users read.

use super::{parse, with_limit};

const TABLE: &str = include_str!("../data/faults.txt");
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/faults.txt");

/// A bad file, and what it is told.
struct Case<'t> {
    title: &'t str,
    text: &'t str,
    told: &'t str,
}

fn cases() -> Vec<Case<'static>> {
    let case = |text: &'static str| {
        let (title, rest) = text.split_once('\n').unwrap();
        let (text, told) = rest.split_once("----\n").unwrap();
        Case { title, text, told }
    };
    TABLE.split("==== ").skip(1).map(case).collect()
}

/// What a file is told. One that is not about limits gets a limit that is right.
fn told(text: &str) -> String {
    let is_whole = text.contains("limits") || text.contains("# whole");
    match if is_whole {
        parse(text)
    } else {
        with_limit(text)
    } {
        Ok(_) => "nothing is wrong\n".into(),
        Err(faults) => format!("{faults}\n"),
    }
}

#[test]
fn every_bad_file_is_told_what_is_wrong() {
    let cases = cases();
    if std::env::var_os("TOLLGATE_BLESS").is_some() {
        let head = TABLE.split("==== ").next().unwrap_or_default();
        let blessed = cases.iter().map(|case| {
            format!(
                "==== {}\n{}----\n{}\n",
                case.title,
                case.text,
                told(case.text)
            )
        });
        std::fs::write(FILE, head.to_owned() + &blessed.collect::<String>()).unwrap();
        return;
    }
    assert!(cases.len() >= 60, "{}", cases.len());
    for Case {
        title,
        text,
        told: expected,
    } in cases
    {
        assert_eq!(told(text), expected.trim_end().to_owned() + "\n", "{title}");
    }
}
