//! Files that are too large in one way or another are refused, soon.

use std::fmt::Write as _;

use tollgate_rules::Config;

use super::{env, parse, with_limit};

fn fault(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn a_long_text_is_refused() {
    let right = "t.yaml: is longer than 1048576 bytes (1 MiB); a configuration must be shorter";
    assert_eq!(fault(&"#".repeat(1_048_577)), right);
    assert_eq!(
        fault(&"#".repeat(1_048_576)),
        "t.yaml: the file is empty; it must have `limits`"
    );
}

/// A sparse file of 100 MB takes no room, and is refused by its length alone.
#[test]
fn a_long_file_is_refused_unread() {
    let path = std::env::temp_dir().join(format!("tollgate-long-{}.yaml", std::process::id()));
    std::fs::File::create(&path)
        .and_then(|file| file.set_len(100_000_000))
        .unwrap();
    let faults = Config::read(&path, &env).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(
        faults.ends_with(
            ".yaml: is longer than 1048576 bytes (1 MiB); a configuration must be shorter"
        ),
        "{faults}"
    );
}

#[cfg(unix)]
#[test]
fn an_endless_file_is_refused() {
    let faults = Config::read("/dev/zero", &env).unwrap_err().to_string();
    assert_eq!(
        faults,
        "/dev/zero: is longer than 1048576 bytes (1 MiB); a configuration must be shorter"
    );
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let faults = Config::read("/nowhere/tollgate.yaml", &env)
        .unwrap_err()
        .to_string();
    assert_eq!(
        faults,
        "/nowhere/tollgate.yaml: cannot be read: No such file or directory (os error 2)"
    );
}

#[test]
fn a_file_in_another_encoding_says_where() {
    let path = std::env::temp_dir().join(format!("tollgate-latin-{}.yaml", std::process::id()));
    std::fs::write(&path, b"limits: []\n# caf\xe9\n").unwrap();
    let faults = Config::read(&path, &env).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(
        faults
            .ends_with(".yaml:2:6: found bytes that are not UTF-8; save the file in that encoding"),
        "{faults}"
    );
}

#[test]
fn deep_nesting_is_refused() {
    let right = "nested deeper than 32; nothing here needs more than 8";
    assert!(fault(&format!("a: {}{}", "[".repeat(100), "]".repeat(100))).contains(right));
    assert!(fault(&"- ".repeat(100_000)).contains(right));
    assert!(fault(&"? ".repeat(100_000)).contains("as a name of a field"));
}

#[test]
fn many_values_are_refused() {
    assert!(
        fault(&format!("a: [{}]", "1,".repeat(200_000))).contains("found more than 100000 values")
    );
}

#[test]
fn many_fields_are_refused() {
    let text: String = (0..1_001)
        .map(|field| format!("field{field}: 1\n"))
        .collect();
    assert_eq!(
        fault(&text),
        "t.yaml:1:1: found 1001 fields; at most 1000 are read"
    );
}

/// As many wrong fields as fit, each of which is compared with all that are known.
#[test]
fn a_file_full_of_faults_is_read_to_its_end() {
    let fields: String = (0..48)
        .map(|field| format!("capacitx{field}: 1, "))
        .collect();
    let text = format!("limits:\n{}", format!("  - {{ {fields} }}\n").repeat(1_000));
    let faults = parse(&text).unwrap_err();
    assert!(faults.more() > 48_000, "{}", faults.more());
}

#[test]
fn many_limits_and_tiers_are_refused() {
    let limits =
        "  - { name: a, key: [], algorithm: sliding_window, limit: 1, window: 1s }\n".repeat(1_001);
    assert!(
        fault(&format!("limits:\n{limits}"))
            .contains("limits: found 1001 limits; write from 1 to 1000")
    );
    let tiers = (0..101).fold("tiers:\n".to_owned(), |mut text, tier| {
        writeln!(text, "  t{tier}: {{ limit: 1 }}").unwrap();
        text
    });
    assert!(
        with_limit(&tiers)
            .unwrap_err()
            .to_string()
            .contains("found 101 tiers; at most 100")
    );
}

#[test]
fn aliases_cannot_multiply() {
    let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n";
    assert_eq!(
        fault(bomb),
        "t.yaml:2:8: found an alias; write the value out, because aliases are not read"
    );
}

#[test]
fn variables_cannot_multiply() {
    let long = |_: &str| Some("x".repeat(100_000));
    let text = format!("limits: [{}]", "\"${A}\",".repeat(100));
    let faults = Config::parse(&text, "t.yaml", &long)
        .unwrap_err()
        .to_string();
    assert!(
        faults.contains("found variables with more than 1048576 bytes in all"),
        "{faults}"
    );
}

#[test]
fn no_more_than_fifty_faults_are_told() {
    let text: String = (0..80).map(|field| format!("field{field}: 1\n")).collect();
    let faults = with_limit(&text).unwrap_err();
    assert_eq!((faults.iter().len(), faults.more()), (50, 30));
    assert!(faults.to_string().ends_with("\nand 30 more"));
}
