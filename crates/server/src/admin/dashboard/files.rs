//! The static files of the dashboard, built into the binary. They are public, and they load
//! nothing from other servers.

use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};

use crate::http::{Body, json};

/// The content security policy: the page may run its own scripts and styles and connect to its own
/// origin. No other page may embed it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'none'; frame-ancestors 'none'; \
                      base-uri 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Path, content type and content of each file.
const FILES: [(&str, &str, &str); 13] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/dashboard/style.css", CSS, include_str!("page/style.css")),
    ("/dashboard/icon.svg", SVG, include_str!("page/icon.svg")),
    ("/dashboard/app.js", SCRIPT, include_str!("page/app.js")),
    ("/dashboard/api.js", SCRIPT, include_str!("page/api.js")),
    ("/dashboard/model.js", SCRIPT, include_str!("page/model.js")),
    ("/dashboard/plot.js", SCRIPT, include_str!("page/plot.js")),
    (
        "/dashboard/summary.js",
        SCRIPT,
        include_str!("page/summary.js"),
    ),
    (
        "/dashboard/limits.js",
        SCRIPT,
        include_str!("page/limits.js"),
    ),
    (
        "/dashboard/denied-keys.js",
        SCRIPT,
        include_str!("page/denied-keys.js"),
    ),
    (
        "/dashboard/key-form.js",
        SCRIPT,
        include_str!("page/key-form.js"),
    ),
    ("/dashboard/dom.js", SCRIPT, include_str!("page/dom.js")),
    (
        "/dashboard/format.js",
        SCRIPT,
        include_str!("page/format.js"),
    ),
];

/// The file at a path, if there is one.
pub(crate) fn find(path: &str) -> Option<Response<Body>> {
    let (_, content_type, text) = FILES.iter().find(|(own, ..)| *own == path)?;

    let mut response = json(hyper::StatusCode::OK, Bytes::from_static(text.as_bytes()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_referenced_file_exists() {
        for (_, _, text) in FILES {
            let quoted = text
                .split(['"', '\''])
                .filter(|word| word.starts_with("/dashboard/"));
            let imported = text
                .lines()
                .filter_map(|line| line.split_once(" from './")?.1.split_once('\''))
                .map(|(name, _)| format!("/dashboard/{name}"));

            for referenced in quoted.map(str::to_owned).chain(imported) {
                assert!(find(&referenced).is_some(), "{referenced}");
            }
        }
        assert!(find("/dashboard/").is_none() && find("/dashboard/../lib.rs").is_none());
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere_and_no_script_is_inline() {
        for (path, content_type, text) in FILES {
            let without_namespace = text.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !without_namespace.contains("://"),
                "{path} refers to another server"
            );

            for inline in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "eval(",
                "document.write",
            ] {
                assert!(!text.contains(inline), "{path} uses {inline}");
            }
            if content_type == HTML {
                assert!(
                    !text.contains("style=") && !text.contains("<style"),
                    "{path}"
                );
                assert!(
                    !text.contains("onclick") && !text.contains("<script>"),
                    "{path}"
                );
            }
        }
    }
}
