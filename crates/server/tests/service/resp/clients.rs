//! The clients that people use: redis-cli, redis-py, ioredis and node-redis.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use testkit::processes::{find_program, find_python_tools};

use super::LIMITS;
use crate::access::ServerCertificate;
use crate::harness::Tollgate;

const TOKEN: &str = "correct-horse-battery";

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clients")
        .join(name)
}

/// A script for Node, with the packages beside the link to Node.
fn node(name: &str) -> Command {
    let node = find_program("TOLLGATE_NODE_CLIENTS", "node-clients");
    let home = node
        .parent()
        .and_then(Path::parent)
        .expect("it is in `bin`");
    let mut command = Command::new(&node);
    command
        .arg(script(name))
        .env("NODE_PATH", home.join("node_modules"));
    command
}

fn python(name: &str) -> Command {
    let mut command = Command::new(find_python_tools());
    command
        .arg(script(name))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// What a command prints.
fn output(mut command: Command) -> String {
    let output = command.output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a script prints, with and without a token.
fn replies(script: impl Fn() -> Command) -> [Value; 2] {
    let tokens = format!(
        "server: {{ tokens: [{{ name: shop, token: {TOKEN}, allow: [check, inline] }}] }}\n{LIMITS}"
    );
    [("", LIMITS), (&format!("default:{TOKEN}@"), &*tokens)].map(|(user, config)| {
        let service = Tollgate::with_resp(config);
        let mut command = script();
        command.arg(format!("redis://{user}{}", service.resp()));
        serde_json::from_str(&output(command)).expect("JSON")
    })
}

/// What every client gets.
fn expected() -> Value {
    json!([
        [0, 3, 2, -1, 60],
        [0, 3, 0, -1, 180],
        [1, 3, 0, 60, 180],
        [0, 10, 9, -1, 86_400],
        [0, 0, 1],
        "ERR invalid max_burst 'x'; must be an integer from 0 to 9007199254740991",
    ])
}

#[test]
fn ioredis() {
    let expected = expected();
    assert_eq!(
        replies(|| node("node/ioredis.cjs")),
        [expected.clone(), expected]
    );
}

#[test]
fn node_redis() {
    // Over both versions of the protocol.
    let both = json!([expected(), expected()]);
    assert_eq!(
        replies(|| node("node/node-redis.cjs")),
        [both.clone(), both]
    );
}

#[test]
fn redis_py() {
    let mut both = json!([expected(), expected()]);
    // It takes the code off.
    for replies in both.as_array_mut().expect("two") {
        let error = replies[5].as_str().expect("a text").replace("ERR ", "");
        replies[5] = error.into();
    }
    assert_eq!(
        replies(|| python("python/redis_py.py")),
        [both.clone(), both]
    );
}

/// Runs redis-cli, and returns the lines that it prints.
fn redis_cli(service: &Tollgate, options: &[&str], words: &[&str]) -> Vec<String> {
    let (ip, port) = (
        service.resp().ip().to_string(),
        service.resp().port().to_string(),
    );
    let mut command = Command::new(find_program("TOLLGATE_REDIS_CLI", "redis-cli"));
    command
        .args(["-h", &ip, "-p", &port])
        .args(options)
        .args(words);
    output(command).lines().map(str::to_owned).collect()
}

#[test]
fn redis_cli_with_both_versions_of_the_protocol() {
    let service = Tollgate::with_resp(LIMITS);
    for version in ["-2", "-3"] {
        let key = format!("cli{version}");
        let throttle = ["CL.THROTTLE", &key, "0", "1", "60"];
        let cli = |words: &[&str]| redis_cli(&service, &[version], words);
        assert_eq!(cli(&throttle), ["0", "1", "0", "-1", "60"]);
        assert_eq!(cli(&throttle), ["1", "1", "0", "60", "60"]);
        assert_eq!(cli(&["PING"]), ["PONG"]);
        assert_eq!(cli(&["TOLLGATE.CHECK", "api", &key])[..3], ["0", "10", "9"]);
        assert_eq!(
            cli(&["TOLLGATE.CHECK", "nope", "x"])[0],
            "ERR unknown limit \"nope\"; expected one of api"
        );
    }
}

#[test]
fn redis_cli_with_tls_and_a_token() {
    let certificate = ServerCertificate::create();
    let tokens = format!("  tokens: [{{ name: shop, token: {TOKEN} }}]\n");
    let service = Tollgate::with_resp(&certificate.config(&tokens));
    let authority = certificate.authority().display().to_string();
    let tls = ["--tls", "--cacert", &authority];

    assert_eq!(
        redis_cli(&service, &tls, &["PING"])[0],
        "NOAUTH Authentication required."
    );
    let with_token = [
        &tls[..],
        &["--no-auth-warning", "--user", "shop", "--pass", TOKEN],
    ]
    .concat();
    let checked = redis_cli(
        &service,
        &with_token,
        &["TOLLGATE.CHECK", "all", "192.0.2.1"],
    );
    assert_eq!(checked[..4], ["0", "1000000", "999999", "-1"]);
    let throttled = redis_cli(&service, &with_token, &["CL.THROTTLE", "a", "0", "1", "60"]);
    assert_eq!(
        throttled[0],
        "NOPERM the token `shop` does not allow `inline`; add it to `allow` of the token"
    );
}
