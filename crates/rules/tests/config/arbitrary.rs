//! No text makes the reader panic or report an error with more than one line.

use proptest::prelude::*;

use super::{EXAMPLE, parse};

/// Reads a text, and checks the errors.
fn read(text: &str) {
    if let Err(errors) = parse(text) {
        assert!(errors.iter().len() > 0);
        for error in errors.iter() {
            assert!(!error.to_string().contains('\n'), "{error}");
            assert!(
                error.line <= text.split(['\n', '\r']).count() + 1,
                "{error}"
            );
        }
    }
}

/// Fragments of YAML and of configurations, which get further than random text.
const FRAGMENTS: &[&str] = &[
    "limits:",
    "\n  - ",
    "\n",
    "  ",
    "name: ",
    "key: ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    ": ",
    "? ",
    "- ",
    "|\n",
    ">\n",
    "&a ",
    "*a",
    "!!str ",
    "\"",
    "'",
    "#",
    "${",
    "}",
    "$${",
    "${SIX}",
    "${SIX:-",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "algorithm: token_bucket",
    "tiers:",
    "tier: {by: a, default: b}",
    "store: ",
    "match: ",
    "1e6",
    "10/s",
    "1m",
    "~",
    "\t",
    "\u{feff}",
    "\u{0}",
    "\u{85}",
    "\u{2028}",
    "é",
    "\r\n",
    "<<: ",
    "capacity: 5",
    "cost: ",
    "10 ms",
];

fn fragment() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(FRAGMENTS).prop_map(str::to_owned),
        "[ -~]{0,6}",
        any::<char>().prop_map(String::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read(text in any::<String>()) {
        read(&text);
    }

    #[test]
    fn any_fragments_are_read(fragments in prop::collection::vec(fragment(), 0..60)) {
        read(&fragments.concat());
    }

    #[test]
    fn the_example_with_a_replaced_part_is_read(
        from in 0..EXAMPLE.len(),
        length in 0..40_usize,
        fragments in prop::collection::vec(fragment(), 0..4),
    ) {
        let end = (from + length).min(EXAMPLE.len());
        if let (Some(before), Some(after)) = (EXAMPLE.get(..from), EXAMPLE.get(end..)) {
            read(&format!("{before}{}{after}", fragments.concat()));
        }
    }

    #[test]
    fn the_example_with_swapped_lines_is_read(
        swaps in prop::collection::vec((0..90_usize, 0..90_usize), 1..6),
    ) {
        let mut lines: Vec<&str> = EXAMPLE.lines().collect();
        for (one, other) in swaps {
            let count = lines.len();
            lines.swap(one % count, other % count);
        }
        read(&lines.join("\n"));
    }
}
