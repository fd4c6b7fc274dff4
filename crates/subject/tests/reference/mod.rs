//! How well-known servers read a request target, written from their documented behaviour.
//!
//! Independent of the crate: nothing here uses its code. A reader returns the path that its router
//! compares with routes, or `None` if it rejects the target.

pub(crate) mod backends;
pub(crate) mod proxies;
pub(crate) mod text;
pub(crate) mod whatwg;

/// A proxy: the request target that it passes on.
pub(crate) type ProxyReader = fn(&str) -> Option<String>;
/// A backend: the path that it looks up.
pub(crate) type BackendReader = fn(&str) -> Option<String>;

/// Every proxy, with a name for messages.
pub(crate) const PROXIES: [(&str, ProxyReader); 10] = [
    ("no proxy", |target| Some(target.to_owned())),
    ("nginx, proxy_pass http://app", proxies::nginx_unparsed),
    ("nginx, proxy_pass http://app/", proxies::nginx_rewritten),
    ("nginx, merge_slashes off", proxies::nginx_without_merging),
    ("nginx, proxy_pass http://app$uri", proxies::nginx_variable),
    ("Envoy, normalize_path", proxies::envoy_normalized),
    ("Envoy, unescaped slashes", proxies::envoy_unescaped),
    ("Caddy with a rewrite", proxies::caddy_rewritten),
    ("HAProxy, path-strip-dotdot", proxies::haproxy_dots),
    ("HAProxy, all normalisers", proxies::haproxy_all),
];

/// Every backend, with a name for messages.
pub(crate) const BACKENDS: [(&str, BackendReader); 14] = [
    ("Node, new URL(req.url, base)", whatwg::node_url),
    ("Hono", backends::hono),
    ("Express 5", backends::express),
    ("Koa", backends::koa),
    ("Flask", backends::flask),
    ("Django", backends::django),
    ("FastAPI", backends::starlette),
    ("Bottle", backends::bottle),
    ("PHP parse_url", backends::php),
    ("PHP built-in server", backends::php_server),
    ("Tomcat", backends::tomcat),
    ("ASP.NET Core", backends::kestrel),
    ("Go ServeMux", backends::go_mux),
    ("a C string", backends::c_string),
];

/// The readers, alone or behind a proxy, that take a target for a path, as texts for messages.
pub(crate) fn readers_of(target: &str, path: &str) -> Vec<String> {
    let mut readers = Vec::new();
    for (proxy_name, proxy) in PROXIES {
        let Some(forwarded) = proxy(target) else {
            continue;
        };
        for (name, backend) in BACKENDS {
            if backend(&forwarded).as_deref() == Some(path) {
                readers.push(format!("{name} behind {proxy_name} ({forwarded:?})"));
            }
        }
    }
    readers
}
