//! The plain request, its variants, and their bytes.

use hyper::Method;

use super::rule::{Place, VariantRule};
use super::spell::{encode_first, fill, letters, slashes};

/// A cookie, a header or a parameter of the plain request.
#[derive(Clone, Debug)]
pub(crate) struct NamedValue {
    name: String,
    value: String,
}

/// The request whose variants are sent.
#[derive(Clone, Debug)]
pub(crate) struct PlainRequest {
    pub(crate) method: Method,
    /// The host, and the port unless it is the default.
    pub(crate) authority: String,
    /// Starts with a slash.
    pub(crate) path: String,
    /// The query, without its question mark.
    pub(crate) query: Option<String>,
    pub(crate) cookie: Option<NamedValue>,
    pub(crate) headers: Vec<NamedValue>,
    /// Empty for no body.
    pub(crate) body: String,
}

/// A request that should be counted like the plain one. `{fresh}` is not filled in yet.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    /// The class of its rule.
    pub(crate) class: String,
    /// The second word of the request line.
    target: Vec<u8>,
    /// The lines of cookies and headers, each with its line break.
    lines: Vec<u8>,
    /// Those of the lines that differ from the plain request.
    own: Vec<u8>,
}

impl NamedValue {
    pub(crate) fn new(name: &str, value: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: value.to_owned(),
        }
    }

    /// Fills a text of the corpus. `None` if it needs a scheme and the value has none.
    fn fill(&self, text: &[u8]) -> Option<Vec<u8>> {
        let (scheme, rest) = self.value.split_once(' ').unwrap_or_default();
        let needs_scheme = text.windows(6).any(|part| part == b"{rest}");
        if needs_scheme && scheme.is_empty() {
            return None;
        }

        Some(fill(text, |name| {
            Some(match name {
                b"name" => self.name.clone().into_bytes(),
                b"NAME" => self.name.to_uppercase().into_bytes(),
                b"underscored" => self.name.replace('-', "_").into_bytes(),
                b"encoded-name" => encode_first(self.name.as_bytes()),
                b"value" => self.value.clone().into_bytes(),
                b"encoded" => encode_first(self.value.as_bytes()),
                b"scheme" => scheme.as_bytes().to_vec(),
                b"SCHEME" => scheme.to_uppercase().into_bytes(),
                b"schema" => scheme.to_lowercase().into_bytes(),
                b"rest" => rest.as_bytes().to_vec(),
                _ => return None,
            })
        }))
    }
}

impl Variant {
    /// The same for variants that send the same bytes.
    pub(super) fn key(&self) -> (Vec<u8>, Vec<u8>) {
        (self.target.clone(), self.lines.clone())
    }
}

impl PlainRequest {
    /// The request itself.
    pub(crate) fn plain(&self) -> Variant {
        self.with_path("plain", self.path.as_bytes())
    }

    /// The variants that a rule makes of this request.
    pub(super) fn apply(&self, rule: &VariantRule) -> Vec<Variant> {
        let path = self.path.as_bytes();
        let text = fill(&rule.text, |name| {
            (name == b"host").then(|| self.authority.clone().into_bytes())
        });
        let class = &rule.class;

        let paths = match rule.place {
            Place::Slash => slashes(path, &text),
            Place::Before => vec![[&text, path].concat()],
            Place::After => vec![[path, &text].concat()],
            Place::Letter => vec![letters(path, &text)],
            Place::Cookie => return self.replace(class, &text, "Cookie: ", self.cookie.as_slice()),
            Place::Header => return self.replace(class, &text, "", &self.headers),
            Place::Query => return self.replace_query(class, &text),
        };
        paths
            .iter()
            .map(|path| self.with_path(class, path))
            .collect()
    }

    fn with_path(&self, class: &str, path: &[u8]) -> Variant {
        let query: String = self.query.iter().flat_map(|query| ["?", query]).collect();
        Variant {
            class: class.to_owned(),
            target: [path, query.as_bytes()].concat(),
            lines: self.lines(None),
            own: Vec::new(),
        }
    }

    /// One variant for the cookie, or for each of the headers.
    fn replace(
        &self,
        class: &str,
        text: &[u8],
        start: &str,
        values: &[NamedValue],
    ) -> Vec<Variant> {
        let variant = |value: &NamedValue| {
            // Rules write a line break as \n.
            let text = value.fill(text)?;
            let rows: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
            let own = [start.as_bytes(), &rows.join(&b"\r\n"[..])].concat();
            Some(Variant {
                lines: self.lines(Some((value, &own))),
                own,
                ..self.with_path(class, self.path.as_bytes())
            })
        };
        values.iter().filter_map(variant).collect()
    }

    /// One variant for each parameter of the query; the other parameters stay.
    fn replace_query(&self, class: &str, text: &[u8]) -> Vec<Variant> {
        let Some(query) = &self.query else {
            return Vec::new();
        };
        let parameters: Vec<&str> = query.split('&').collect();

        let variant = |index: usize| {
            let (name, value) = parameters[index].split_once('=')?;
            let own = NamedValue::new(name, value).fill(text)?;
            let mut parts: Vec<&[u8]> = parameters.iter().map(|part| part.as_bytes()).collect();
            parts[index] = &own;
            Some(Variant {
                target: [self.path.as_bytes(), b"?", &parts.join(&b'&')].concat(),
                ..self.with_path(class, b"")
            })
        };
        (0..parameters.len()).filter_map(variant).collect()
    }

    /// The lines of cookies and headers; `own` replaces the lines of one of them.
    fn lines(&self, own: Option<(&NamedValue, &[u8])>) -> Vec<u8> {
        let cookies = self.cookie.iter().map(|value| (value, "Cookie: ", "="));
        let headers = self.headers.iter().map(|value| (value, "", ": "));

        let mut lines = Vec::new();
        for (value, start, middle) in cookies.chain(headers) {
            match own {
                Some((replaced, own)) if std::ptr::eq(replaced, value) => lines.extend(own),
                _ => lines.extend([start, &value.name, middle, &value.value].concat().bytes()),
            }
            lines.extend(b"\r\n");
        }
        lines
    }

    /// The bytes of a request. Requests with different numbers have different values of `{fresh}`.
    pub(crate) fn encode(&self, variant: &Variant, number: u64) -> Vec<u8> {
        let mut head = format!("{} ", self.method).into_bytes();
        head.extend(&variant.target);
        let authority = &self.authority;
        head.extend(format!(" HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n").bytes());

        if !self.body.is_empty() || !matches!(self.method, Method::GET | Method::HEAD) {
            head.extend(format!("Content-Length: {}\r\n", self.body.len()).bytes());
        }
        let is_type = |header: &NamedValue| header.name.eq_ignore_ascii_case("content-type");
        if !self.body.is_empty() && !self.headers.iter().any(is_type) {
            head.extend(b"Content-Type: application/x-www-form-urlencoded\r\n");
        }
        head.extend(&variant.lines);
        head.extend(b"\r\n");

        let fresh = format!("audit-{}-{number}", std::process::id());
        let mut bytes = fill(&head, |name| {
            (name == b"fresh").then(|| fresh.clone().into_bytes())
        });
        bytes.extend(self.body.as_bytes());
        bytes
    }

    /// The variant on one line, with escapes as in `\xff`.
    pub(crate) fn describe(&self, variant: &Variant) -> String {
        let target = variant.target.escape_ascii();
        let own = match variant.own.as_slice() {
            [] => String::new(),
            own => format!("  {}", own.escape_ascii()),
        };
        format!("{} {target}{own}", self.method)
    }
}
