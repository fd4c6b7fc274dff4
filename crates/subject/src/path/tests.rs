use proptest::prelude::*;

use super::*;

const SPECIAL: [&str; 9] = [
    "%2e", "%252e", "%2F", "..", "/../", "%%32", "%2", "http://", "\u{e9}",
];

/// Paths made mostly of special characters, so that the rules of normalising interact.
fn any_path() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[/\\\\.%;?#2eE5fF061a]{1,3}",
        2 => proptest::sample::select(&SPECIAL[..]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn normalising_is_idempotent(path in any_path()) {
        let once = normalise(&path);
        prop_assert!(matches!(normalise(&once), Cow::Borrowed(twice) if twice == once));
    }

    #[test]
    fn a_normal_path_is_unambiguous(path in any_path()) {
        let normal = normalise(&path);
        prop_assert!(normal.is_ascii() && !normal.contains(['\\', '?', '#', ';', ' ', '\0']));
        let segments = normal.strip_prefix('/').unwrap();
        let is_name = |segment: &str| !["", ".", ".."].contains(&segment);
        prop_assert!(segments.is_empty() || segments.split('/').all(is_name));
    }

    #[test]
    fn parent_segments_are_resolved(path in any_path(), name in "[a-z]{1,5}") {
        let normal = normalise(&path);
        for longer in [format!("/{name}/..{normal}"), format!("/{name}/%2E%2e;x=1/{normal}/?y")] {
            prop_assert_eq!(normalise(&longer), normal.as_ref());
        }
    }

    #[test]
    fn a_path_is_at_most_three_times_as_long(path in any_path()) {
        prop_assert!(normalise(&path).len() <= path.len() * 3 + 1);
    }

    #[test]
    fn percent_encoded_letters_are_decoded(path in "(/[a-zA-Z0-9_~-]{1,6}){1,4}") {
        let escaped: String = path.bytes().map(|byte| match byte {
            b'/' => "/".to_owned(),
            byte => format!("%{byte:02x}"),
        }).collect();
        prop_assert_eq!(normalise(&escaped), path);
    }
}

#[test]
fn a_normal_path_is_borrowed() {
    for path in [
        "/",
        "/auth/login",
        "/a%2Fb",
        "/v1/users/7:get",
        "/auth/login?user=ann",
        "/auth/login#top",
    ] {
        assert!(matches!(normalise(path), Cow::Borrowed(_)), "{path}");
    }
    for path in ["", "/auth/", "/a%2fb", "/%41", "/a;b", "/a b"] {
        assert!(matches!(normalise(path), Cow::Owned(_)), "{path}");
    }
}

/// Quadratic time would show on these paths.
#[test]
fn long_paths_take_one_pass() {
    let deep = "/a".repeat(1 << 17);
    assert_eq!(normalise(&deep), deep);
    assert_eq!(normalise(&(deep.clone() + &"/..".repeat(1 << 17))), "/");
    assert_eq!(normalise(&"/a/..".repeat(1 << 17)), "/");
    assert_eq!(normalise(&"/".repeat(1 << 19)), "/");
    assert_eq!(
        normalise(&format!("/{}", "%".repeat(1 << 17))).len(),
        1 + (3 << 17)
    );
}
