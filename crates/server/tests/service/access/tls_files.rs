//! What is wrong with the files of a certificate is reported at the start and by `validate`.

use std::fs;
use std::path::Path;

use testkit::certificates::Authority;

use super::{LIMITS, ServerCertificate, stderr, tollgate};
use crate::harness::write_config;

#[test]
fn errors_name_the_field_the_file_and_the_reason() {
    let certificate = ServerCertificate::create();
    let directory = certificate.directory.path();
    let other = Authority::create(directory, "other").issue("other-server");
    let empty = directory.join("empty.pem");
    fs::write(&empty, "").expect("a writable directory");

    let (cert, key) = (&certificate.files.certificate, &certificate.files.key);
    let missing = directory.join("missing.pem");
    let cases: [(&Path, &Path, Option<&Path>, &str); 7] = [
        (
            &missing,
            key,
            None,
            "server.tls.cert: cannot use MISSING: No such file",
        ),
        (
            &empty,
            key,
            None,
            "server.tls.cert: cannot use EMPTY: no certificate in it",
        ),
        (
            key,
            key,
            None,
            "server.tls.cert: cannot use KEY: no certificate in it",
        ),
        (
            directory,
            key,
            None,
            "server.tls.cert: cannot use DIRECTORY: it is not a regular file",
        ),
        (
            cert,
            cert,
            None,
            "server.tls.key: cannot use CERT: no private key in it",
        ),
        (
            cert,
            &other.key,
            None,
            "server.tls.key: cannot use OTHER: it is not the key of the certificate in CERT",
        ),
        (
            cert,
            key,
            Some(&empty),
            "server.tls.client_ca: cannot use EMPTY: no certificate in it",
        ),
    ];
    for (used_cert, used_key, client_ca, expected) in cases {
        let client_ca = client_ca.map(|file| format!(", client_ca: {}", file.display()));
        let file = write_config(&format!(
            "server:\n  tls: {{ cert: {}, key: {}{} }}\n{LIMITS}",
            used_cert.display(),
            used_key.display(),
            client_ca.unwrap_or_default()
        ));
        let config = file.display().to_string();
        let expected = [
            ("MISSING", &missing),
            ("EMPTY", &empty),
            ("KEY", key),
            ("CERT", cert),
            ("OTHER", &other.key),
            ("DIRECTORY", &directory.to_owned()),
        ]
        .into_iter()
        .fold(expected.to_owned(), |text, (name, file)| {
            text.replace(name, &file.display().to_string())
        });

        let ports = [
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
        ];
        let serve = [&["serve", "--config", &config], &ports[..]].concat();
        for arguments in [&["validate", &config][..], &serve] {
            let output = tollgate(arguments, &[]);
            assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
            let found = stderr(&output);
            assert!(
                found.contains(&expected) && found.contains(":2:"),
                "{found}\ndoes not contain {expected}"
            );
        }
        fs::remove_dir_all(file.parent().expect("a directory")).expect("it is ours");
    }
}

/// Only the machine that runs the service has the key.
#[test]
fn other_commands_do_not_need_the_files() {
    let file = write_config(&format!(
        "server: {{ tls: {{ cert: /no, key: /no }} }}\n{LIMITS}"
    ));
    let config = file.display().to_string();
    let explain = [
        "explain",
        "--config",
        &config,
        "-a",
        "client_ip=203.0.113.7",
    ];
    let output = tollgate(&explain, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    fs::remove_dir_all(file.parent().expect("a directory")).expect("it is ours");
}
