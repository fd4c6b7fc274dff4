//! What a reload reports of two files.

use tollgate_rules::config::ConfigChanges;

use crate::EXAMPLE;

fn changes(before: &str, after: &str) -> Vec<String> {
    ConfigChanges::between(before, after).lines()
}

#[test]
fn every_changed_field_is_a_line() {
    let before = "
defaults: { consistency: strict }
limits:
  - { name: api, key: [client_ip], algorithm: sliding_window, limit: 100, window: 1m }
  - { name: old, key: [], algorithm: fixed_window, limit: 1, window: 1s }
";
    let after = "
store: { keys_max: 7 }   # a comment
limits:
  - { name: new, key: [], algorithm: fixed_window, limit: 1, window: 1s }
  - name: api
    match: { path: /v1 }
    key: [client_ip, path]
    algorithm: sliding_window
    limit: 200
    window: 1m
";
    assert_eq!(
        changes(before, after),
        [
            "limit \"new\": added",
            "limit \"old\": removed",
            "store.keys_max: (default) -> 7",
            "limit \"api\": match.path (default) -> /v1",
            "limit \"api\": key [client_ip] -> [client_ip, path]",
            "limit \"api\": limit 100 -> 200",
            "defaults.consistency: strict -> (default)",
        ]
    );
    assert!(ConfigChanges::between(before, before).is_empty());

    let ab = "limits: [{ name: a }, { name: b }]";
    let reversed = "limits: [{ name: b }, { name: a }]";
    assert_eq!(changes(ab, reversed), ["limits: order changed"]);
}

#[test]
fn no_line_shows_a_secret() {
    let after = EXAMPLE
        .replace("${TOLLGATE_HASH_SECRET}", "literal-secret-0123")
        .replace("redis-1", "redis-9")
        + "server: { tokens: [{ name: ci, token: another-secret-0123, allow: [check] }] }\n";
    let lines = changes(EXAMPLE, &after);
    assert_eq!(
        lines,
        [
            "store.endpoints: changed (not shown)",
            "hash_secret: changed (not shown)",
            "server.tokens[0].name: (default) -> ci",
            "server.tokens[0].token: changed (not shown)",
            "server.tokens[0].allow: (default) -> [check]",
        ]
    );

    let webhook = "alerts: { webhook: { secret: one-more-secret-0123 } }";
    assert_eq!(
        changes("", webhook),
        ["alerts.webhook.secret: changed (not shown)"]
    );

    let default = "denial: { content_type: '${TYPE:-text/s3cret}' }";
    assert_eq!(
        changes("", default),
        ["denial.content_type: changed (not shown)"]
    );
}

#[test]
fn changes_are_bounded() {
    let limits = |count: usize| -> String {
        let limits = (0..count).map(|n| format!("  - {{ name: a{n}, limit: 1\u{202e} }}\n"));
        "limits:\n".to_owned() + &limits.collect::<String>()
    };
    let all = ConfigChanges::between("", &limits(80));
    assert_eq!(all.len(), 80);
    assert_eq!(all.lines().len(), 51);
    assert_eq!(all.lines()[50], "and 30 more");

    let long = changes("version: 1", &format!("version: {}", "x\u{7}".repeat(100)));
    assert!(long[0].len() < 300 && long[0].ends_with("..."), "{long:?}");
    assert!(!long[0].contains('\u{7}'));
}
