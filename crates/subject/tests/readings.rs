//! Whatever well-known servers take for the login is read as the login.

mod reference;

use proptest::prelude::*;
use tollgate_subject::{Case, Glob, PathReadings};

use reference::readers_of;

const LOGIN: &str = "/auth/login";

fn login() -> Glob {
    Glob::for_path(LOGIN, Case::Insensitive).expect("a valid pattern")
}

/// A change to a target that some server undoes.
#[derive(Clone, Debug)]
enum Mutation {
    /// Inserts a text at a slash, or at the end.
    AtSlash(usize, &'static str),
    /// Inserts a text anywhere.
    Anywhere(usize, &'static str),
    /// Percent-encodes a character.
    Escape(usize),
    /// Puts a text before everything.
    Before(&'static str),
    /// Appends a text.
    After(&'static str),
    /// Replaces a slash.
    Slash(usize, &'static str),
    /// Changes the case of a letter.
    Case(usize),
}

const AT_SLASH: [&str; 16] = [
    "/x/..",
    "/.",
    "/",
    "/;",
    "/;/..",
    "//..",
    "/x//../..",
    "/%2e",
    "/x/%2e%2e",
    "/\\..",
    ";a=1",
    "/x%2f..",
    "/x/..;",
    "/x%5c..",
    "/?/..",
    "/#/..",
];
const ANYWHERE: [&str; 8] = ["%00", "%09", "%0a", "\t", "%ff", "%25", "%", "+"];
const BEFORE: [&str; 12] = [
    "//x", "//u@x:8", "http://h", "http:", "https:/h", "/\\x", "\\\\x", "/.//x", "///x", "ws://h",
    "//%2f", "/%2fx",
];
const AFTER: [&str; 20] = [
    "/", "?a", "#a", "%3fa", "%23a", "%00", "%0a", "%0d%0a", "%20", "%09", ";", ";x", "/.",
    "/x/..", ".", "%00.png", "%2f", "%5c", "//", "\\",
];
const SLASH: [&str; 8] = ["%2f", "%2F", "\\", "%5c", "%252f", "//", "%c0%af", "%u002f"];

fn mutation() -> impl Strategy<Value = Mutation> {
    let text = |texts: &'static [&'static str]| proptest::sample::select(texts);
    prop_oneof![
        3 => (any::<usize>(), text(&AT_SLASH)).prop_map(|(at, text)| Mutation::AtSlash(at, text)),
        1 => (any::<usize>(), text(&ANYWHERE)).prop_map(|(at, text)| Mutation::Anywhere(at, text)),
        2 => any::<usize>().prop_map(Mutation::Escape),
        1 => text(&BEFORE).prop_map(Mutation::Before),
        2 => text(&AFTER).prop_map(Mutation::After),
        2 => (any::<usize>(), text(&SLASH)).prop_map(|(at, text)| Mutation::Slash(at, text)),
        1 => any::<usize>().prop_map(Mutation::Case),
    ]
}

/// The position of one of the wanted characters, counted from any number.
fn position(text: &str, number: usize, is_wanted: impl Fn(char) -> bool) -> Option<usize> {
    let found: Vec<usize> = text
        .char_indices()
        .filter(|(_, c)| is_wanted(*c))
        .map(|(at, _)| at)
        .collect();
    found.get(number % found.len().max(1)).copied()
}

fn mutated(mut target: String, mutation: &Mutation) -> String {
    match mutation {
        Mutation::AtSlash(number, text) => {
            let at = position(&target, *number, |c| c == '/').unwrap_or(target.len());
            target.insert_str(at, text);
        }
        Mutation::Anywhere(number, text) => {
            let at = position(&target, *number, |_| true).unwrap_or(0);
            target.insert_str(at, text);
        }
        Mutation::Escape(number) => {
            let at = position(&target, *number, |c| c.is_ascii()).unwrap_or(0);
            if let Some(byte) = target.bytes().nth(at) {
                target.replace_range(at..=at, &format!("%{byte:02x}"));
            }
        }
        Mutation::Before(text) => target.insert_str(0, text),
        Mutation::After(text) => target.push_str(text),
        Mutation::Slash(number, text) => {
            if let Some(at) = position(&target, *number, |c| c == '/') {
                target.replace_range(at..=at, text);
            }
        }
        Mutation::Case(number) => {
            if let Some(at) = position(&target, *number, |c| c.is_ascii_lowercase()) {
                target[at..=at].make_ascii_uppercase();
            }
        }
    }
    target
}

fn target() -> impl Strategy<Value = String> {
    proptest::collection::vec(mutation(), 0..5)
        .prop_map(|mutations| mutations.iter().fold(LOGIN.to_owned(), mutated))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// The property that the limiter rests on.
    #[test]
    fn what_any_server_takes_for_the_login_is_read_as_the_login(target in target()) {
        let readers = readers_of(&target, LOGIN);
        let readings = PathReadings::new(&target);
        prop_assert!(
            readers.is_empty() || readings.any_matches(&login()),
            "{target:?} is the login for {readers:?}, but is read as {readings:?}"
        );
    }
}
