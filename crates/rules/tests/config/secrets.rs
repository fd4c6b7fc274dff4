//! Values from the environment, passwords and the hash secret are never shown.

use super::{EXAMPLE, PASSWORD, SECRET, env, one_limit, parse, with_limit};
use tollgate_rules::Config;

#[test]
fn debug_output_of_the_example_has_no_secrets() {
    let config = parse(EXAMPLE).unwrap();
    let shown = format!("{config:?} {config:#?} {:?}", config.warnings);
    assert!(
        !shown.contains(PASSWORD) && !shown.contains(SECRET),
        "{shown}"
    );
}

/// Replaces each value of the example by the variable. No error may show the variable's value.
#[test]
fn no_error_shows_the_value_of_a_variable() {
    for value in [
        "s3cr3t-value",
        "0",
        "977977977",
        "977977977s",
        "977977977/s",
        "9.77977977",
        "-977977977",
        "a\nb: s3cr3t",
    ] {
        let env = |name: &str| {
            if name == "LEAKY" {
                Some(value.to_owned())
            } else {
                env(name)
            }
        };
        for (number, line) in EXAMPLE.lines().enumerate() {
            let Some((name, _)) = line
                .split_once(" #")
                .map_or(line, |(code, _)| code)
                .rsplit_once(": ")
            else {
                continue;
            };
            let mut lines: Vec<_> = EXAMPLE.lines().map(str::to_owned).collect();
            let closing = if line.contains('{') { " }" } else { "" };
            lines[number] = format!("{name}: \"${{LEAKY}}\"{closing}");
            let shown = match Config::parse(&lines.join("\n"), "t.yaml", &env) {
                Ok(config) => config.warnings.join("\n"),
                Err(errors) => format!("{errors} {errors:?}"),
            };
            let is_shown = shown.contains("s3cr3t")
                || shown.contains("977977977")
                || shown.contains("77977977");
            assert!(!is_shown, "line {}: {shown}", number + 1);
        }
    }
}

#[test]
fn no_error_shows_a_password_in_the_file() {
    for store in [
        "store: redis://u:hunter2@h",
        "store: { type: \"redis://u:hunter2@h\" }",
        "store: { type: redis, endpoints: \"redis://u:hunter2@h\" }",
        "store: { type: redis, endpoints: [\"http://u:hunter2@h\"] }",
        "store: { type: redis, endpoints: [\"u:hunter2@h\"] }",
        "store: { type: redis, endpoints: [\"hunter2\"] }",
        "store: { type: redis, endpoints: hunter2 }",
        "store: { type: redis, endpoints: [\"redis://u:hunter2@h\"], \
         timeout: \"redis://u:hunter2@h\" }",
        "store: { type: redis, \"redis://u:hunter2@h\": 1 }",
        "store: { type: redis, endpoints: [\"redis://u:hunter2@h\"], prefix: \"u:p://hunter2 {\" }",
        "hash_keys: [client_ip]\nhash_secret: hunter2",
        "hash_keys: [client_ip]\nhash_secret: [hunter2]",
        "hash_keys: [client_ip]\nhash_secret: \"hunter2${hunter2!}\"",
        "hash_keys: [\"redis://u:hunter2@h\"]\nhash_secret: 0123456789abcdef",
        "monitoring: { tracing: { otlp_endpoint: \"u:hunter2@h\" } }",
        "client_ip: { trusted_proxies: [\"redis://u:hunter2@h\"] }",
    ] {
        let errors = with_limit(store).unwrap_err();
        let shown = format!("{errors} {errors:?}");
        assert!(!shown.contains("hunter2"), "{store}\n{shown}");
    }
}

#[test]
fn debug_output_omits_the_password_of_a_collector() {
    let text = "monitoring: { tracing: { otlp_endpoint: \"http://u:hunter2@h:4317\" } }";
    assert!(!format!("{:?}", with_limit(text).unwrap()).contains("hunter2"));
}

#[test]
fn a_value_cannot_change_the_structure() {
    let injected = |_: &str| Some("x\nversion: 2".to_owned());
    let text = "limits: [{ name: a, key: [], algorithm: sliding_log, limit: 1, window: 1s, \
                match: { k: \"${V}\" } }]";
    let config = Config::parse(text, "t.yaml", &injected).unwrap();
    assert!(format!("{:?}", config.limits[0].conditions).contains(r"x\nversion: 2"));
}

/// A name from the environment may be a customer's, so errors identify the limit by its index.
#[test]
fn a_limit_name_from_a_variable_is_not_shown() {
    let errors = one_limit("algorithm: sliding_log, limit: 1, window: 1s").map(drop);
    assert!(errors.is_ok());
    let text = "limits: [{ name: \"${LEAKY}\", key: [], algorithm: sliding_log, limit: 0, \
                window: 1s, consistency: leased }]";
    let errors = parse(text).unwrap_err().to_string();
    assert_eq!(
        errors,
        "t.yaml:1:70: limits[0].limit: invalid number \"0\": \
         must be between 1 and 9007199254740992 (2^53)"
    );
}
