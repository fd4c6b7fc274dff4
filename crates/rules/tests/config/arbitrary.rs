//! No text makes the reader panic, or tell a fault on more than one line.

use proptest::prelude::*;

use super::{EXAMPLE, parse};

/// Reads, and checks what is told.
fn read(text: &str) {
    if let Err(faults) = parse(text) {
        assert!(faults.iter().len() > 0);
        for fault in faults.iter() {
            assert!(!fault.to_string().contains('\n'), "{fault}");
            assert!(
                fault.line <= text.split(['\n', '\r']).count() + 1,
                "{fault}"
            );
        }
    }
}

/// Bits of YAML and of configurations, which get further than plain noise.
const SCRAPS: &[&str] = &[
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

fn scrap() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(SCRAPS).prop_map(str::to_owned),
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
    fn any_scraps_are_read(scraps in prop::collection::vec(scrap(), 0..60)) {
        read(&scraps.concat());
    }

    #[test]
    fn the_example_with_a_piece_replaced_is_read(from in 0..EXAMPLE.len(), length in 0..40_usize, scraps in prop::collection::vec(scrap(), 0..4)) {
        let end = (from + length).min(EXAMPLE.len());
        if let (Some(before), Some(after)) = (EXAMPLE.get(..from), EXAMPLE.get(end..)) {
            read(&format!("{before}{}{after}", scraps.concat()));
        }
    }

    #[test]
    fn the_example_with_lines_exchanged_is_read(swaps in prop::collection::vec((0..90_usize, 0..90_usize), 1..6)) {
        let mut lines: Vec<&str> = EXAMPLE.lines().collect();
        for (one, other) in swaps {
            let count = lines.len();
            lines.swap(one % count, other % count);
        }
        read(&lines.join("\n"));
    }
}
