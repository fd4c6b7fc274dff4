//! Every plausible reading of a request target.

use std::borrow::Cow;

use super::steps::{STEPS, scan};
use super::{is_plainly_normal, normalise, push_segment, without_origin};
use crate::glob::Glob;

/// The longest path that is read, in bytes.
const PATH_MAX: usize = 8_192;
/// The most texts that the steps may lead to.
const TEXTS_MAX: usize = 32;
/// The most bytes that all steps together may read. Long paths may have fewer texts for it.
const WORK_MAX: usize = 16_384;

/// The paths that servers, proxies and frameworks may take a request target for.
///
/// Servers disagree about what a path means. Behind one proxy, `/auth%2Flogin` is the login; for
/// another server it is a file of that name. A limit that applies only to one of the readings can
/// be evaded with the other. So a limit applies if [any](Self::any_matches) reading matches, and an
/// exemption holds only if [all](Self::all_match) of them do.
///
/// The readings are all texts that these steps lead to, in any order and any number of times, as
/// several hops may apply them:
///
/// * removing the scheme and the host of `http://host/path`, `//user@host/path` and `host/path`,
/// * decoding all escapes, or all but `%2F`; double encoding is decoding twice,
/// * decoding leniently: `%u002f`, overlong UTF-8, full-width characters, the case of letters
///   beyond ASCII, bytes that are not UTF-8,
/// * treating `\` as `/`, and several slashes as one,
/// * resolving `.` and `..`, where empty segments count until slashes are merged,
/// * removing `;` parameters,
/// * ending the path at a decoded `?`, `#`, NUL, line end or HTTP version,
/// * removing control characters, and white space at the ends,
/// * removing dots and spaces at the end of segments.
///
/// In the end, empty segments are left out and the result is spelt like a
/// [normalised](crate::normalise) path. The case of ASCII letters is kept; [`Glob`] decides whether
/// it matters. A plain path has exactly one reading, which is borrowed.
///
/// The number of readings is bounded. A target is *unreadable* if it has more, or if its path is
/// longer than 8 KiB: then it may mean anything, so every pattern counts as matched by some reading
/// and none as matched by all.
///
/// ```
/// use tollgate_subject::{Case, Glob, PathReadings};
///
/// let login = Glob::for_path("/auth/login", Case::Insensitive)?;
/// for target in ["/auth%2Flogin", "/auth/x//../../login", "//host/auth/login", "/Auth/Login%0a"] {
///     assert!(PathReadings::new(target).any_matches(&login), "{target}");
/// }
///
/// let assets = Glob::for_path("/assets/**", Case::Insensitive)?;
/// let readings = PathReadings::new("/assets/..%2fauth/login");
/// assert!(readings.any_matches(&assets) && !readings.all_match(&assets));
/// # Ok::<(), tollgate_subject::GlobError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathReadings<'t> {
    /// What most servers take the target for.
    canonical: Cow<'t, str>,
    /// The other readings; none equals another one or the canonical one. At most [`TEXTS_MAX`].
    others: Vec<String>,
    is_readable: bool,
}

impl<'t> PathReadings<'t> {
    /// Reads a request target: a path, perhaps with a query, or an absolute URL.
    pub fn new(target: &'t str) -> Self {
        let path = without_origin(target);
        let path = path.split('?').next().unwrap_or_default();
        let name = path.strip_suffix('/').unwrap_or(path);
        if path.len() <= PATH_MAX && (is_plainly_normal(name) || path == "/") {
            let canonical = if name.is_empty() { path } else { name };
            return Self {
                canonical: Cow::Borrowed(canonical),
                others: Vec::new(),
                is_readable: true,
            };
        }

        let canonical = normalise(path);
        let is_short = path.len() <= PATH_MAX;
        let texts = is_short.then(|| reachable_texts(path)).flatten();
        let is_readable = texts.is_some();

        let mut others = Vec::new();
        for text in texts.into_iter().flatten() {
            let reading = spell(&text);
            if reading != canonical && !others.contains(&reading) {
                others.push(reading);
            }
        }
        Self {
            canonical,
            others,
            is_readable,
        }
    }

    /// The reading of most servers, for what needs a single value: what
    /// [`normalise`](crate::normalise) gives.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// All readings, the canonical one first. For an unreadable target, only that one.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let others = self.others.iter().map(String::as_str);
        std::iter::once(self.canonical()).chain(others)
    }

    /// Whether the readings are complete. If not, the target may mean anything.
    pub const fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// Whether there is more than one reading.
    pub const fn is_ambiguous(&self) -> bool {
        !self.is_readable || !self.others.is_empty()
    }

    /// Whether a pattern matches at least one reading, so that a limit applies.
    pub fn any_matches(&self, pattern: &Glob) -> bool {
        !self.is_readable || self.iter().any(|reading| pattern.matches(reading))
    }

    /// Whether a pattern matches every reading, so that an exemption holds.
    pub fn all_match(&self, pattern: &Glob) -> bool {
        self.is_readable && self.iter().all(|reading| pattern.matches(reading))
    }

    /// The same readings, which borrow nothing.
    pub fn into_owned(self) -> PathReadings<'static> {
        PathReadings {
            canonical: Cow::Owned(self.canonical.into_owned()),
            ..self
        }
    }
}

/// All texts that the steps lead to from a path. `None` if there are too many.
fn reachable_texts(path: &str) -> Option<Vec<String>> {
    let mut texts = vec![path.to_owned()];
    let mut work = 0;
    let mut rewritten = String::with_capacity(path.len());

    let mut at = 0;
    while at < texts.len() {
        let signs = scan(&texts[at]);
        for (_, apply) in STEPS.iter().filter(|(concerned, _)| concerned & signs != 0) {
            work += texts[at].len();
            if work > WORK_MAX {
                return None;
            }

            rewritten.clear();
            apply(&texts[at], &mut rewritten);
            if texts.contains(&rewritten) {
                continue;
            }
            if texts.len() == TEXTS_MAX {
                return None;
            }
            texts.push(rewritten.clone());
        }
        at += 1;
    }
    Some(texts)
}

/// Spells a text like a normalised path, without resolving anything but empty segments.
fn spell(text: &str) -> String {
    let mut path = String::with_capacity(text.len() + 1);
    for segment in text.split('/').filter(|segment| !segment.is_empty()) {
        path.push('/');
        push_segment(&mut path, segment);
    }

    if path.is_empty() {
        path.push('/');
    }
    path
}
