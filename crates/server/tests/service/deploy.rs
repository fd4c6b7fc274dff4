//! Reads the files in `deploy/`; tests replace only addresses in them.

use std::path::{Path, PathBuf};

/// A file of `deploy/`.
pub(crate) fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).expect("a file of that name")
}

pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy")).join(name)
}

/// Replaces a part of the text, which must be there.
pub(crate) fn put(text: &str, part: &str, other: &str) -> String {
    assert!(text.contains(part), "{part:?} is not in the file");
    text.replace(part, other)
}

/// The file of nginx, with placeholders for its addresses: `port`, `tollgate` and `app`.
pub(crate) fn nginx() -> String {
    let file = put(
        &read("nginx/tollgate.conf"),
        "listen 80;",
        "listen 127.0.0.1:@port@;",
    );
    let file = put(&file, "server 127.0.0.1:8080;", "server @tollgate@;");
    let file = put(&file, "server 127.0.0.1:3000;", "server @app@;");
    put(&file, "/var/log/nginx/", "")
}

/// The file of Caddy, with placeholders for its addresses: `port`, `tollgate` and `app`.
pub(crate) fn caddy() -> String {
    let file = put(&read("caddy/Caddyfile"), "http://:80 {", "http://:@port@ {");
    let file = put(&file, "127.0.0.1:8080 {", "@tollgate@ {");
    put(&file, "reverse_proxy 127.0.0.1:3000", "reverse_proxy @app@")
}

/// A file of Envoy, with placeholders for its ports: `port`, `tollgate` and `app`.
pub(crate) fn envoy(file: &str) -> String {
    let file = put(
        file,
        "0.0.0.0, port_value: 10000",
        "127.0.0.1, port_value: @port@",
    );
    let file = put(&file, "port_value: 8000", "port_value: @app@");
    let service = if file.contains("8081") {
        "8081"
    } else {
        "8080"
    };
    let service = format!("port_value: {service}");
    put(&file, &service, "port_value: @tollgate@")
}

/// The same file for tests that must not take a busy machine for an outage.
pub(crate) fn patient(file: &str) -> String {
    slowed(file, 20)
}

/// The same file with all its timeouts this many times as long.
pub(crate) fn slowed(file: &str, factor: u32) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let slow = |word: &str| {
        let (number, unit) = word.split_at(word.find(|c: char| c.is_ascii_alphabetic())?);
        let number: f64 = number.parse().ok()?;
        let is_time = matches!(unit, "s" | "ms");
        is_time.then(|| format!("{}{unit}", number * f64::from(factor)))
    };

    let lines = file.split_inclusive('\n').map(|line| {
        if !line.contains("timeout") {
            return line.to_owned();
        }
        let parts = line.split_inclusive(|c| !is_word(c)).map(|part| {
            let word = part.trim_end_matches(|c| !is_word(c));
            slow(word).map_or_else(|| part.to_owned(), |slow| part.replacen(word, &slow, 1))
        });
        parts.collect()
    });
    lines.collect()
}

/// nginx reaches the service over TLS, as `docs/security.md` says.
pub(crate) fn nginx_with_tls(file: &str, authority: &Path) -> String {
    let ca = authority.display();
    let protected = format!(
        "proxy_ssl_verify on;\n proxy_ssl_trusted_certificate {ca};\n \
         proxy_ssl_name localhost;\n proxy_pass https://tollgate/"
    );
    put(file, "proxy_pass http://tollgate/", &protected)
}

/// Caddy reaches the service over TLS, as `docs/security.md` says.
pub(crate) fn caddy_with_tls(file: &str, authority: &Path) -> String {
    let ca = authority.display();
    let protected = format!(
        "reverse_proxy https://@tollgate@ {{\n \
         transport http {{\n tls_trusted_ca_certs {ca}\n }}\n"
    );
    put(file, "reverse_proxy @tollgate@ {", &protected)
}

/// Envoy reaches the service over TLS, as `docs/security.md` says.
pub(crate) fn envoy_with_tls(file: &str, authority: &Path) -> String {
    let socket = format!(
        "  - name: tollgate
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: localhost
        common_tls_context: {{ validation_context: {{ trusted_ca: {{ filename: {} }} }} }}
",
        authority.display()
    );
    put(file, "  - name: tollgate\n", &socket)
}
