//! Compares the exact output of commands with the files in `golden/`.
//!
//! `TOLLGATE_BLESS=1 cargo test -p tollgate-server --test cli` updates the files. Review the diff:
//! it is what users see.

use std::path::PathBuf;

use clap::CommandFactory as _;

use super::{SECRETS, text, tollgate};

const EXAMPLE: &str = "examples/tollgate.yaml";
const WRONG: &str = "crates/server/tests/cli/data/wrong.yaml";
const ENDPOINTS: &str = "crates/server/tests/cli/data/endpoints.yaml";
const MIXED: &str = "crates/server/tests/cli/data/mixed.yaml";

/// Runs a command and compares its output with the golden file.
pub(super) fn golden(name: &str, arguments: &[&str]) {
    let output = tollgate(arguments);
    let exit = output
        .status
        .code()
        .map_or_else(|| "a signal".to_owned(), |code| code.to_string());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let actual = format!(
        "$ tollgate {}\n--- exit {exit}\n--- stdout\n{out}--- stderr\n{err}",
        arguments.join(" ")
    );
    for (variable, secret) in SECRETS {
        assert!(
            !actual.contains(secret),
            "{name} shows the value of {variable}"
        );
    }
    assert!(
        !out.contains('\x1b') && !err.contains('\x1b'),
        "{name} has colours without a terminal"
    );
    let file =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cli/golden/{name}.txt"));
    if std::env::var_os("TOLLGATE_BLESS").is_some() {
        std::fs::write(file, actual).expect("the golden files can be written");
        return;
    }
    let golden = std::fs::read_to_string(file).unwrap_or_default();
    assert_eq!(
        actual, golden,
        "{name}; TOLLGATE_BLESS=1 updates the golden files"
    );
}

#[test]
fn help() {
    golden("help", &["--help"]);
    for command in [
        "serve",
        "validate",
        "explain",
        "check",
        "reserve",
        "settle",
        "cancel",
        "keys",
        "block",
        "exempt",
        "override",
        "shadow",
        "load",
        "simulate",
        "audit-paths",
        "import",
        "completions",
        "schema",
    ] {
        golden(&format!("help-{command}"), &[command, "--help"]);
    }
    golden("help-keys-get", &["keys", "get", "--help"]);
    golden("help-keys-reset", &["keys", "reset", "--help"]);
    golden("help-keys-top", &["keys", "top", "--help"]);
    golden("help-short", &["-h"]);
}

#[test]
fn every_help_has_an_example_and_the_exit_codes() {
    let helps = [
        "serve",
        "validate",
        "explain",
        "check",
        "reserve",
        "settle",
        "cancel",
        "keys",
        "block",
        "exempt",
        "override",
        "shadow",
        "load",
        "simulate",
        "audit-paths",
        "import",
        "completions",
        "schema",
    ];
    for command in helps {
        let help = tollgate(&[command, "--help"]);
        let help = text(&help.stdout);
        assert!(
            help.contains("Exit codes:\n  0  ") && help.contains("Example"),
            "{help}"
        );
        assert!(
            help.lines().all(|line| line.len() <= 160),
            "a line of {command} is too long"
        );
    }
    for command in tollgate_server::Cli::command().get_subcommands() {
        let name = command.get_name();
        assert!(helps.contains(&name), "{name} has no test of its help");
    }
}

#[test]
fn import() {
    for file in [
        "envoy.yaml",
        "limitador.yaml",
        "limitador-resource.yaml",
        "nginx.conf",
        "nginx-keys.conf",
        "kong.yaml",
        "kong-plugins.yaml",
    ] {
        let path = format!("crates/server/tests/cli/data/import/{file}");
        let name = file.split('.').next().unwrap_or_default();
        golden(&format!("import-{name}"), &["import", &path]);
    }
    for file in ["broken.conf", "broken.yaml", "none.yaml"] {
        let path = format!("crates/server/tests/cli/data/import/{file}");
        golden(
            &format!("import-{}", file.replace('.', "-")),
            &["import", &path],
        );
    }
    golden("import-unknown", &["import", WRONG]);
    golden("import-other", &["import", "--from", "envoy", WRONG]);
}

#[test]
fn usage() {
    golden("usage-no-command", &[]);
    golden("usage-slip", &["valdiate", "x.yaml"]);
    golden("usage-no-file", &["validate"]);
    golden("usage-no-limit", &["keys", "get"]);
    golden("usage-timeout", &["check", "--timeout", "5"]);
    golden("usage-count-peek", &["check", "--count", "--peek"]);
    golden("usage-no-actual", &["settle", "BI5u"]);
    golden("usage-no-reservation", &["cancel"]);
    golden("usage-tokens", &["reserve", "--tokens", "input"]);
    golden("usage-negative", &["settle", "BI5u", "--actual", "-1"]);
}

#[test]
fn invalid_audit_arguments() {
    let url = "http://127.0.0.1:1/auth/login";
    let golden = |name: &str, arguments: &[&str]| {
        let arguments = [&["audit-paths"], arguments].concat();
        golden(&format!("audit-paths-{name}"), &arguments);
    };
    golden("no-url", &[]);
    golden("https", &["--url", "https://127.0.0.1/auth/login"]);
    golden("no-path", &["--url", "http://127.0.0.1/"]);
    golden("cookie", &["--url", url, "--cookie", "session"]);
    golden("header", &["--url", url, "--header", "X-Api-Key"]);
    golden("class", &["--url", url, "--class", "dots"]);
    golden("rules", &["--url", url, "--rules", WRONG]);
}

#[test]
fn invalid_load_arguments() {
    let golden = |name: &str, arguments: &[&str]| {
        golden(&format!("load-{name}"), &[&["load"], arguments].concat());
    };
    golden("rate", &["--rate", "0"]);
    golden("duration", &["--duration", "0s"]);
    golden("ramp", &["--duration", "5s", "--ramp", "10s"]);
    golden("keys", &["--keys", "zipf"]);
    golden("keys-none", &["--keys", "uniform:0"]);
    golden("keys-exponent", &["--keys", "zipf:10:0"]);
    golden("keys-file", &["--keys", "file:nowhere.txt"]);
    golden("cost", &["--cost", "5-1"]);
    golden("connections", &["--connections", "0"]);
    golden("no-window", &["--shape", "edge-burst"]);
    golden("window", &["--window", "1m"]);
    golden("window-long", &["--shape", "edge-burst", "--window", "1m"]);
    golden("allow", &["--allow", "api=120"]);
    golden("errors-max", &["--errors-max", "5"]);
    golden("template", &["-a", "user={user}"]);
    golden("get-attribute", &["--get", "/", "-a", "client_ip={ip}"]);
    golden("get-path", &["--get", "search"]);
    golden("get-limit", &["--get", "/", "--limit", "api"]);
    golden("url", &["--url", "ftp://example.com"]);
    golden("config", &["--config", WRONG]);
    golden("limit", &["--config", EXAMPLE, "--limit", "lgoin"]);
    golden("json", &["--json", "--duration", "5s", "--ramp", "10s"]);
}

#[test]
fn validate() {
    golden("validate-example", &["validate", EXAMPLE]);
    golden("validate-wrong", &["validate", WRONG]);
    golden("validate-endpoints", &["validate", ENDPOINTS]);
    golden("validate-mixed", &["validate", MIXED]);
    golden(
        "validate-several",
        &["validate", EXAMPLE, WRONG, "nowhere.yaml"],
    );
    golden(
        "validate-several-json",
        &["validate", "--json", EXAMPLE, WRONG],
    );
    golden(
        "validate-no-variable",
        &["validate", "crates/server/tests/cli/data/variable.yaml"],
    );
}

#[test]
fn explain() {
    golden(
        "explain-built-in",
        &["explain", "-a", "client_ip=203.0.113.7"],
    );
    let of_example = |name: &str, arguments: &[&str]| {
        golden(
            name,
            &[&["explain", "--config", EXAMPLE], arguments].concat(),
        );
    };
    let login = [
        "-a",
        "client_ip=203.0.113.7",
        "-a",
        "method=post",
        "-a",
        "path=/auth/login",
        "-a",
        "email=ann@x.org",
    ];
    of_example(
        "explain-login",
        &[&login[..], &["-a", "tenant=acme"]].concat(),
    );
    let ambiguous = login.map(|argument| match argument {
        "path=/auth/login" => "path=/x/..%2fauth/login",
        other => other,
    });
    of_example(
        "explain-ambiguous-path",
        &[&ambiguous[..], &["-a", "tenant=acme"]].concat(),
    );
    of_example(
        "explain-json",
        &[&login[..], &["-a", "tenant=acme", "--json"]].concat(),
    );
    of_example("explain-missing", &login);
    of_example(
        "explain-hashed",
        &[
            "--limit",
            "plan",
            "-a",
            "path=/v1/x",
            "-a",
            "header:X-Api-Key=k1",
            "-a",
            "tier=pro",
        ],
    );
    of_example(
        "explain-cost",
        &[
            "-l",
            "reports",
            "-a",
            "path=/reports/a",
            "-a",
            "tenant=acme",
            "-a",
            "report_pages=3",
        ],
    );
    of_example("explain-no-such-limit", &["--limit", "pln"]);
    of_example("explain-slip", &["-a", "clientip=203.0.113.7"]);
    of_example(
        "explain-unused",
        &[
            "-l",
            "quota",
            "-a",
            "tenant=acme",
            "-a",
            "tennant=acme",
            "-a",
            "colour=red",
        ],
    );
    golden("explain-wrong-config", &["explain", "--config", WRONG]);
}

#[test]
fn explain_shows_no_hashed_values_and_escapes_control_characters() {
    let config = "crates/server/tests/cli/data/hidden.yaml";
    golden(
        "explain-hidden",
        &[
            "explain",
            "-c",
            config,
            "-a",
            "header:x-key=k1",
            "-a",
            "color=\x1b[31m\nred",
        ],
    );
    let output = tollgate(&[
        "explain",
        "-c",
        config,
        "-a",
        "header:x-key=sesame",
        "-a",
        "color=red",
    ]);
    assert!(
        !text(&output.stdout).contains("sesame"),
        "{}",
        text(&output.stdout)
    );
}
