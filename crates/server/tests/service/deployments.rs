//! The deployment files for systemd, Docker, Kubernetes and Traefik. Each is parsed by its own tool
//! or format, and the service is started with the arguments and configuration in it.

use std::process::Command;

use serde_json::Value;
use testkit::reverse_proxy::{self, find_python_tools};

use crate::deploy::{path, put, read};
use crate::harness::{Tollgate, write_config};

/// The documents of a YAML file.
pub(crate) fn yaml(name: &str) -> Vec<Value> {
    let script =
        "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let output = Command::new(find_python_tools())
        .args(["-c", script])
        .arg(path(name))
        .output()
        .expect("python runs");
    assert!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array()
        .expect("a list")
        .iter()
        .map(|item| item.as_str().expect("a text"))
        .collect()
}

/// Starts the service with these arguments and this configuration, except for the addresses. Its
/// store is unavailable.
fn starts(arguments: &[&str], config: &str) {
    let help = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["serve", "--help"])
        .output()
        .expect("it runs");
    let help = String::from_utf8_lossy(&help.stdout);
    assert_eq!(arguments[0], "serve");
    for option in &arguments[1..] {
        let (name, _) = option.split_once('=').expect("an option with its value");
        assert!(help.contains(name), "{option} is no option: {help}");
    }
    assert!(
        arguments.contains(&"--config=/etc/tollgate/tollgate.yaml"),
        "{arguments:?}"
    );
    let config = put(config, "redis://redis:6379", "redis://127.0.0.1:1");
    let service = Tollgate::with(
        &config,
        &[],
        &[("TOLLGATE_ADMIN_TOKEN", "only-for-this-test")],
    );
    let ready = reverse_proxy::get(service.http, "/readyz", &[]);
    assert_eq!(ready.status, 200, "{}", ready.text());
    let asked =
        r#"{"attributes": {"client_ip": "203.0.113.7", "method": "POST", "path": "/auth/login"}}"#;
    let answer = service.check(asked);
    assert_eq!(
        answer.status,
        503,
        "a login is denied while the store is unavailable: {}",
        answer.text()
    );
}

#[test]
fn compose_starts_the_service_with_its_store() {
    let [compose] = &yaml("docker/compose.yaml")[..] else {
        panic!("one document")
    };
    let tollgate = &compose["services"]["tollgate"];
    assert_eq!(texts(&tollgate["volumes"]), ["./config:/etc/tollgate:ro"]);
    starts(
        &texts(&tollgate["command"]),
        &read("docker/config/tollgate.yaml"),
    );
    assert!(
        compose["services"]["redis"]["image"]
            .as_str()
            .is_some_and(|image| image.starts_with("redis:"))
    );
    assert!(
        texts(&tollgate["ports"])
            .iter()
            .all(|port| port.starts_with("127.0.0.1:")),
        "every port is published on loopback only"
    );
    let context = path("docker").join(tollgate["build"]["context"].as_str().expect("a directory"));
    assert!(
        context
            .join(tollgate["build"]["dockerfile"].as_str().expect("a file"))
            .is_file()
    );
}

#[test]
fn the_image_uses_the_right_compiler_and_existing_files() {
    let dockerfile = read("docker/Dockerfile");
    let version = env!("CARGO_PKG_RUST_VERSION");
    assert!(
        dockerfile.contains(&format!("FROM rust:{version}-")),
        "the compiler version of the workspace"
    );
    assert!(dockerfile.contains(&format!("--package {}", env!("CARGO_PKG_NAME"))));
    let root = path("..");
    for kept in read("docker/Dockerfile.dockerignore")
        .lines()
        .filter_map(|line| line.strip_prefix('!'))
    {
        assert!(root.join(kept).exists(), "{kept}");
    }
}

#[test]
fn kubernetes_has_everything_it_needs() {
    let documents = yaml("kubernetes/tollgate.yaml");
    let of = |kind: &str| {
        documents
            .iter()
            .find(|document| document["kind"] == kind)
            .unwrap_or_else(|| panic!("{kind}"))
    };
    let pod = &of("Deployment")["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    starts(
        &texts(&container["args"]),
        of("ConfigMap")["data"]["tollgate.yaml"]
            .as_str()
            .expect("a text"),
    );

    let labels = &pod["metadata"]["labels"];
    for (kind, selector) in [
        (
            "Deployment",
            &of("Deployment")["spec"]["selector"]["matchLabels"],
        ),
        ("Service", &of("Service")["spec"]["selector"]),
        (
            "PodDisruptionBudget",
            &of("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        ),
    ] {
        assert_eq!(selector, labels, "{kind} means these pods");
    }
    let named: Vec<&Value> = container["ports"]
        .as_array()
        .expect("ports")
        .iter()
        .map(|port| &port["name"])
        .collect();
    for port in of("Service")["spec"]["ports"].as_array().expect("ports") {
        assert!(named.contains(&&port["targetPort"]), "{port}");
    }
    for (probe, path) in [("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")] {
        assert_eq!(container[probe]["httpGet"]["path"], path);
        assert_eq!(container[probe]["httpGet"]["port"], "http");
    }
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/etc/tollgate");
    let replicas = of("Deployment")["spec"]["replicas"]
        .as_u64()
        .expect("a number");
    let config = of("ConfigMap")["data"]["tollgate.yaml"]
        .as_str()
        .expect("a text");
    assert!(config.contains(&format!("expected_replicas: {replicas} ")));
}

#[test]
fn systemd_accepts_the_unit() {
    let unit = read("systemd/tollgate.service");
    for line in unit
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let is_section = line.starts_with('[') && line.ends_with(']');
        assert!(
            is_section
                || line
                    .split_once('=')
                    .is_some_and(|(name, _)| !name.contains(' ')),
            "{line}"
        );
    }
    let analyze = ["/usr/bin/systemd-analyze", "/bin/systemd-analyze"]
        .into_iter()
        .find(|file| path(file).is_file());
    let Some(analyze) = analyze else { return };
    let file = write_config(&put(
        &unit,
        "/usr/local/bin/tollgate",
        env!("CARGO_BIN_EXE_tollgate"),
    ));
    let named = file.with_file_name("tollgate.service");
    std::fs::rename(&file, &named).expect("a writable directory");
    for arguments in [
        &["verify"][..],
        &["security", "--offline=yes", "--threshold=20"],
    ] {
        let output = Command::new(analyze)
            .args(arguments)
            .arg(&named)
            .output()
            .expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{arguments:?}: {told}");
    }
    std::fs::remove_dir_all(named.parent().expect("a directory of its own")).expect("it is ours");
}

/// The router uses the middleware that the file defines.
#[test]
fn traefik_uses_what_it_defines() {
    let [file] = &yaml("traefik/dynamic.yml")[..] else {
        panic!("one document")
    };
    let http = &file["http"];
    assert_eq!(
        texts(&http["routers"]["app"]["middlewares"]),
        ["tollgate-headers", "tollgate"]
    );
    assert_eq!(
        http["middlewares"]["tollgate"]["forwardAuth"]["trustForwardHeader"],
        false
    );
    assert!(http["services"]["app"]["loadBalancer"]["servers"].is_array());
}
