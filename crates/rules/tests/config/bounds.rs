//! Files that exceed a size limit are rejected quickly.

use std::fmt::Write as _;
use std::path::Path;

use tollgate_rules::Config;

use super::{env, parse, with_limit};

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn a_text_that_is_too_large_is_rejected() {
    let expected = "t.yaml: the file is too large: at most 1048576 bytes (1 MiB) are allowed";
    assert_eq!(error(&"#".repeat(1_048_577)), expected);
    assert_eq!(
        error(&"#".repeat(1_048_576)),
        "t.yaml: the file is empty; `limits` is required"
    );
}

/// A sparse file of 100 MB takes no disk space, and only its first MiB is read.
#[test]
fn a_file_that_is_too_large_is_rejected() {
    let path = std::env::temp_dir().join(format!("tollgate-long-{}.yaml", std::process::id()));
    std::fs::File::create(&path)
        .and_then(|file| file.set_len(100_000_000))
        .unwrap();

    let errors = Config::read(&path, &env).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(
        errors.ends_with(".yaml: the file is too large: at most 1048576 bytes (1 MiB) are allowed"),
        "{errors}"
    );
}

/// Reading one of them could wait forever. A test that hangs has failed.
#[test]
fn what_is_not_a_regular_file_is_rejected() {
    let name = format!("tollgate-pipe-{}", std::process::id());
    let pipe = std::env::temp_dir().join(name);
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());

    let found = [&pipe, Path::new("/dev/zero"), Path::new("/")]
        .map(|path| Config::read(path, &env).unwrap_err().to_string());
    std::fs::remove_file(&pipe).unwrap();

    let [pipe, device, directory] = found;
    assert!(
        pipe.ends_with(": it is a pipe; expected a regular file"),
        "{pipe}"
    );
    assert_eq!(
        device,
        "/dev/zero: cannot read the file: it is a device; expected a regular file"
    );
    assert_eq!(
        directory,
        "/: cannot read the file: it is a directory; expected a regular file"
    );
}

#[test]
fn an_endless_stream_is_rejected() {
    let errors = Config::read_from(std::io::repeat(b'#'), "<stdin>", &env);
    assert_eq!(
        errors.unwrap_err().to_string(),
        "<stdin>: the file is too large: at most 1048576 bytes (1 MiB) are allowed"
    );
}

#[test]
fn an_unreadable_file_gives_the_reason() {
    let errors = Config::read("/nowhere/tollgate.yaml", &env)
        .unwrap_err()
        .to_string();
    assert_eq!(
        errors,
        "/nowhere/tollgate.yaml: cannot read the file: No such file or directory (os error 2)"
    );
}

#[test]
fn invalid_utf8_has_a_position() {
    let path = std::env::temp_dir().join(format!("tollgate-latin-{}.yaml", std::process::id()));
    std::fs::write(&path, b"limits: []\n# caf\xe9\n").unwrap();
    let errors = Config::read(&path, &env).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(
        errors.ends_with(".yaml:2:6: invalid UTF-8; save the file in UTF-8"),
        "{errors}"
    );
}

#[test]
fn deep_nesting_is_rejected() {
    let expected = "nested too deeply: at most 32 levels are allowed";
    assert!(error(&format!("a: {}{}", "[".repeat(100), "]".repeat(100))).contains(expected));
    assert!(error(&"- ".repeat(100_000)).contains(expected));
    assert!(error(&"? ".repeat(100_000)).contains("a field name must be a string"));
}

#[test]
fn too_many_values_are_rejected() {
    assert!(
        error(&format!("a: [{}]", "1,".repeat(200_000)))
            .contains("too many values: at most 100000")
    );
}

#[test]
fn too_many_fields_are_rejected() {
    let text: String = (0..1_001)
        .map(|field| format!("field{field}: 1\n"))
        .collect();
    assert_eq!(
        error(&text),
        "t.yaml:1:1: too many fields: found 1001, at most 1000 are allowed"
    );
}

/// The maximum number of unknown fields, each of which is compared with all known ones.
#[test]
fn a_file_full_of_errors_is_read_to_its_end() {
    let fields: String = (0..48)
        .map(|field| format!("capacitx{field}: 1, "))
        .collect();
    let text = format!("limits:\n{}", format!("  - {{ {fields} }}\n").repeat(1_000));
    let errors = parse(&text).unwrap_err();
    assert!(errors.more() > 48_000, "{}", errors.more());
}

#[test]
fn too_many_limits_and_tiers_are_rejected() {
    let limits =
        "  - { name: a, key: [], algorithm: sliding_window, limit: 1, window: 1s }\n".repeat(1_001);
    assert!(
        error(&format!("limits:\n{limits}"))
            .contains("limits: expected 1 to 1000 limits, found 1001")
    );

    let tiers = (0..101).fold("tiers:\n".to_owned(), |mut text, tier| {
        writeln!(text, "  t{tier}: {{ limit: 1 }}").unwrap();
        text
    });

    assert!(
        with_limit(&tiers)
            .unwrap_err()
            .to_string()
            .contains("too many tiers: found 101, at most 100")
    );
}

#[test]
fn aliases_cannot_expand_exponentially() {
    let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n";
    assert_eq!(
        error(bomb),
        "t.yaml:2:8: YAML aliases (`*name`) are not supported; repeat the value instead"
    );
}

#[test]
fn variables_cannot_expand_without_bound() {
    let long = |_: &str| Some("x".repeat(100_000));
    let text = format!("limits: [{}]", "\"${A}\",".repeat(100));
    let errors = Config::parse(&text, "t.yaml", &long)
        .unwrap_err()
        .to_string();
    assert!(
        errors.contains("variables too long: at most 1048576 bytes"),
        "{errors}"
    );
}

#[test]
fn at_most_fifty_errors_are_reported() {
    let text: String = (0..80).map(|field| format!("field{field}: 1\n")).collect();
    let errors = with_limit(&text).unwrap_err();
    assert_eq!((errors.iter().len(), errors.more()), (50, 30));
    assert!(errors.to_string().ends_with("\nand 30 more"));
}
