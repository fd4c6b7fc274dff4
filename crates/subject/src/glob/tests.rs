use proptest::prelude::*;

use super::*;

/// A simple reference implementation of matching, which may take exponential time.
fn reference_matches(pattern: &[u8], text: &[u8]) -> bool {
    let skips_segments = pattern.starts_with(b"/**") && matches!(pattern.get(3), None | Some(b'/'));
    if skips_segments && reference_matches(&pattern[3..], text) {
        return true;
    }
    match (pattern, text) {
        ([], []) => true,
        ([b'*', b'*', after @ ..], _) => {
            reference_matches(after, text)
                || text
                    .split_first()
                    .is_some_and(|(_, rest)| reference_matches(pattern, rest))
        }
        ([b'*', after @ ..], _) => {
            let goes_on =
                |(first, rest): (&u8, &[u8])| *first != b'/' && reference_matches(pattern, rest);
            reference_matches(after, text) || text.split_first().is_some_and(goes_on)
        }
        ([same, after @ ..], [first, rest @ ..]) => same == first && reference_matches(after, rest),
        _ => false,
    }
}

fn glob(text: &str) -> Glob {
    text.parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn matching_agrees_with_the_reference(
        pattern in "(\\*{0,2}[ab/]){1,6}\\*{0,2}", text in "[ab/]{0,10}",
    ) {
        let expected = reference_matches(pattern.as_bytes(), text.as_bytes());
        prop_assert_eq!(glob(&pattern).matches(&text), expected);
    }

    #[test]
    fn a_text_without_stars_matches_only_itself(text in "[^*]{1,60}", other in "[^*]{1,60}") {
        prop_assert!(glob(&text).is_literal() && glob(&text).matches(&text));
        prop_assert_eq!(glob(&text).matches(&other), text == other);
    }

    #[test]
    fn case_insensitive_patterns_ignore_case(pattern in "[aB/*]{1,8}", text in "[Ab/]{0,10}") {
        let insensitive = Glob::new(&pattern, Case::Insensitive).unwrap();
        let lower = glob(&pattern.to_ascii_lowercase());
        prop_assert_eq!(insensitive.matches(&text), lower.matches(&text.to_ascii_lowercase()));
    }

    #[test]
    fn nothing_panics(pattern in any::<String>(), text in any::<String>()) {
        let globs = [
            Glob::new(&pattern, Case::Insensitive),
            Glob::for_path(&pattern, Case::Sensitive),
        ];

        for glob in globs {
            let shown = glob.map_or_else(
                |error| error.to_string(),
                |glob| glob.matches(&text).to_string(),
            );
            prop_assert!(!shown.is_empty());
        }
    }
}

proptest! {
    #[test]
    fn a_set_matches_what_each_of_its_patterns_matches(
        patterns in proptest::collection::vec(
            ("(/(\\*{0,3}|a|bA|a\\*|\\*b\\*|a\\*\\*|b)){1,5}", any::<bool>()), 1..40,
        ),
        text in "(/[abAB]{0,3}){1,7}",
    ) {
        let glob = |(text, is_exact): &(String, bool)| {
            let case = if *is_exact { Case::Sensitive } else { Case::Insensitive };
            Glob::new(text, case).unwrap()
        };
        let globs: Vec<Glob> = patterns.iter().map(glob).collect();
        let mut found = Vec::new();
        GlobSet::new(&globs).for_each_match(&text, |index| found.push(index));
        found.sort_unstable();

        let matching = (0..globs.len()).filter(|index| globs[*index].matches(&text));
        prop_assert_eq!(found, matching.collect::<Vec<_>>());
    }
}

#[test]
fn stars_match_as_documented() {
    for (pattern, texts, others) in [
        (
            "/v1/**",
            &["/v1", "/v1/", "/v1/a", "/v1/a/b"][..],
            &["/v", "/v11", "/v1a/b", "/V1", "v1"][..],
        ),
        ("/v1/*", &["/v1/", "/v1/a"], &["/v1", "/v1/a/b"]),
        ("/**", &["/", "/a", "/a/b", ""], &["a"]),
        ("**", &["", "/", "a/b"], &[]),
        ("*", &["", "a"], &["/", "a/b"]),
        (
            "/a/**/b",
            &["/a/b", "/a/x/b", "/a/x/y/b"],
            &["/ab", "/a/xb", "/a/b/x"],
        ),
        ("/a/**b", &["/a/b", "/a/x/b", "/a/xb"], &["/ab", "/a"]),
        ("/*/keys", &["/ann/keys"], &["/keys", "/ann/old/keys"]),
        ("/*.php", &["/x.php"], &["/x/y.php", "/x.php5"]),
        ("/**/**", &["/", "/a", ""], &["a"]),
        ("/a***b", &["/ab", "/a/x/b"], &["/a"]),
        ("/\u{e9}*", &["/\u{e9}\u{e8}"], &["/\u{e8}"]),
    ] {
        for text in texts {
            assert!(glob(pattern).matches(text), "{pattern} and {text:?}");
        }
        for text in others {
            assert!(!glob(pattern).matches(text), "{pattern} and {text:?}");
        }
    }
}

/// Backtracking would practically never end on these patterns.
#[test]
fn no_text_makes_matching_slow() {
    let long = "a".repeat(5_000);
    for pattern in [
        "a*a*a*a*b",
        "a*a*a*a*a*a*a*a*a*a*a*a*a*a*b",
        "**a**a**a**a**a**b",
        "**a*a**a*a**b",
        "/**/**/**/b",
    ] {
        assert!(!glob(pattern).matches(&long), "{pattern}");
        assert!(!glob(pattern).matches(&"/a".repeat(2_500)), "{pattern}");
    }

    let widest = format!("**{}b", "a".repeat(PATTERN_MAX - 3));
    assert!(!glob(&widest).matches(&long));
    assert!(glob(&widest).matches(&(long + "b")));
}

/// The states of many patterns, and of long ones, do not touch each other.
#[test]
fn a_set_may_have_many_and_long_patterns() {
    let long = |at: usize| format!("/**/{}{at}/*/{}", "a".repeat(100), "b/".repeat(60) + "end");
    let globs: Vec<Glob> = (0..500).map(|at| glob(&long(at))).collect();
    let set = GlobSet::new(&globs);
    for at in [0, 1, 63, 250, 499] {
        let mut found = Vec::new();
        let text = long(at).replace("**", "x/y").replace('*', "z");
        set.for_each_match(&text, |index| found.push(index));
        assert_eq!(found, [at]);
    }
}

#[test]
fn a_pattern_is_bounded() {
    assert_eq!("".parse::<Glob>(), Err(GlobError::Empty));
    assert!("a".repeat(PATTERN_MAX).parse::<Glob>().is_ok());
    assert_eq!(
        "a".repeat(256).parse::<Glob>(),
        Err(GlobError::TooLong { found: 256 })
    );
    assert!("a*".repeat(STARS_MAX).parse::<Glob>().is_ok());
    assert_eq!(
        "a*".repeat(17).parse::<Glob>(),
        Err(GlobError::TooManyStars { found: 17 })
    );
}

#[test]
fn path_patterns_that_never_match_are_rejected() {
    let path = |text| Glob::for_path(text, Case::Sensitive);
    let error = path("v1/**").unwrap_err();

    assert_eq!(
        error.to_string(),
        r#"invalid path pattern "v1/**": it must start with a slash; write "/v1/**""#
    );
    assert!(matches!(
        path("/v1?x"),
        Err(GlobError::Query { sign: '?', .. })
    ));
    assert!(matches!(
        path("/v1#x"),
        Err(GlobError::Query { sign: '#', .. })
    ));
    assert!(matches!(
        path(&"/\u{e9}".repeat(60)),
        Err(GlobError::TooLong { found: 420 })
    ));
}

#[test]
fn a_path_pattern_displays_normalised() {
    let login = Glob::for_path("/auth//login/", Case::Insensitive).unwrap();
    assert_eq!(
        (login.to_string().as_str(), login.as_str(), login.case()),
        ("/auth/login", "/auth/login", Case::Insensitive)
    );
    assert!(login.is_literal() && !glob("/*").is_literal() && !glob("/v1/**").is_literal());
    assert_ne!(glob("/a"), Glob::new("/a", Case::Insensitive).unwrap());
}
