//! The files of the page, built into the binary. Nothing here is secret, and nothing is fetched
//! from elsewhere.

use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};

use crate::http::{Body, json};

/// The page runs its own scripts and styles, talks to where it came from, and is shown in no other
/// page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                                 form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// Where each file is, what it is, and itself.
const FILES: [(&str, &str, &str); 13] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/dashboard/style.css", CSS, include_str!("page/style.css")),
    (
        "/dashboard/icon.svg",
        PICTURE,
        include_str!("page/icon.svg"),
    ),
    ("/dashboard/app.js", SCRIPT, include_str!("page/app.js")),
    (
        "/dashboard/server.js",
        SCRIPT,
        include_str!("page/server.js"),
    ),
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
        "/dashboard/refused.js",
        SCRIPT,
        include_str!("page/refused.js"),
    ),
    ("/dashboard/key.js", SCRIPT, include_str!("page/key.js")),
    ("/dashboard/dom.js", SCRIPT, include_str!("page/dom.js")),
    ("/dashboard/words.js", SCRIPT, include_str!("page/words.js")),
];

/// The file at a path, if there is one.
pub(crate) fn find(path: &str) -> Option<Response<Body>> {
    let (_, kind, text) = FILES.iter().find(|(own, ..)| *own == path)?;
    let mut response = json(hyper::StatusCode::OK, Bytes::from_static(text.as_bytes()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_is_named_is_there() {
        for (_, _, text) in FILES {
            let quoted = text
                .split(['"', '\''])
                .filter(|word| word.starts_with("/dashboard/"));
            let imported = text
                .lines()
                .filter_map(|line| line.split_once(" from './")?.1.split_once('\''))
                .map(|(name, _)| format!("/dashboard/{name}"));
            for named in quoted.map(str::to_owned).chain(imported) {
                assert!(find(&named).is_some(), "{named}");
            }
        }
        assert!(find("/dashboard/").is_none() && find("/dashboard/../lib.rs").is_none());
    }

    #[test]
    fn nothing_comes_from_elsewhere_and_nothing_stands_inline() {
        for (path, kind, text) in FILES {
            let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("://"), "{path} names another place");
            for inline in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "eval(",
                "document.write",
            ] {
                assert!(!text.contains(inline), "{path} uses {inline}");
            }
            if kind == HTML {
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
