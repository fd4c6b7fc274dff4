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

/// The content type by file name extension.
const CONTENT_TYPES: [(&str, &str); 4] = [
    (".html", "text/html; charset=utf-8"),
    (".css", "text/css; charset=utf-8"),
    (".js", "text/javascript; charset=utf-8"),
    (".svg", "image/svg+xml"),
];

/// The name and the content of each file.
macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("page/", $name)))),*]
    };
}

const FILES: &[(&str, &str)] = files! {
    "index.html" "style.css" "icon.svg" "app.js" "api.js" "model.js" "plot.js" "summary.js"
    "fleet.js" "limits.js" "top-keys.js" "key-form.js" "actions.js" "dom.js" "format.js"
};

/// The file at a path, if there is one: `/` is the page, and `/dashboard/` has what it loads.
pub(in crate::admin) fn find(path: &str) -> Option<Response<Body>> {
    let wanted = match path {
        "/" => "index.html",
        _ => path.strip_prefix("/dashboard/")?,
    };
    let (name, text) = FILES.iter().find(|(name, _)| *name == wanted)?;
    let (_, content_type) = CONTENT_TYPES
        .iter()
        .find(|(extension, _)| name.ends_with(extension))?;

    let mut response = json(hyper::StatusCode::OK, Bytes::from_static(text.as_bytes()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Some(response)
}

#[cfg(test)]
mod tests {
    use tollgate_rules::text::HIDDEN;

    use super::*;

    #[test]
    fn every_referenced_file_exists() {
        for (_, text) in FILES {
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

    /// The page escapes the same characters as the rest of Tollgate.
    #[test]
    fn hidden_characters_are_those_of_the_terminal() {
        let (_, script) = FILES
            .iter()
            .find(|(name, _)| *name == "dom.js")
            .expect("a file");
        let (_, class) = script
            .split_once("HIDDEN = new RegExp(")
            .expect("the ranges");
        let (class, _) = class.split_once("'gu'").expect("the end of the ranges");
        let character = |hex: &str| {
            let code = u32::from_str_radix(hex, 16).expect("a code point");
            char::from_u32(code).expect("a character")
        };

        let mut ranges = Vec::new();
        for part in class.split("\\\\u{").skip(1) {
            let (hex, rest) = part.split_once('}').expect("a closing brace");
            match ranges.last_mut() {
                Some((_, end @ None)) => *end = Some(character(hex)),
                _ => ranges.push((character(hex), Some(character(hex)))),
            }
            if rest.starts_with('-') {
                let (_, end) = ranges.last_mut().expect("the range that begins here");
                *end = None;
            }
        }
        let expected = HIDDEN.map(|range| (*range.start(), Some(*range.end())));
        assert_eq!(ranges, expected);
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere_and_no_script_is_inline() {
        for (path, text) in FILES {
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
            if *path == "index.html" {
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
