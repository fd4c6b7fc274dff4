//! Path classes: named groups of paths.

use std::borrow::Cow;

use tollgate::KeyParts;
use tollgate_subject::{Case, Glob, GlobError, normalise};

use super::{KeyLookup, KeySource, OptionalKey};
use crate::request_head::RequestHead;

/// The name of the first class whose pattern matches the path.
///
/// Paths are normalised before they are matched, so `/auth/./login` and `/auth/%6Cogin` are in the
/// same class as `/auth/login`. A path that no pattern matches has no key.
///
/// ```
/// use tollgate_tower::by;
///
/// let class = by::path_class([("/auth/**", "auth"), ("/reports/*.pdf", "reports")])?;
/// let per_class_and_client = (class.or_skip(), by::client_address());
/// # let _ = per_class_and_client;
/// # Ok::<(), tollgate_tower::GlobError>(())
/// ```
pub fn path_class<'c>(
    classes: impl IntoIterator<Item = (&'c str, &'c str)>,
) -> Result<OptionalKey<PathClassKey>, GlobError> {
    let parse = |(pattern, name): (&str, &str)| {
        Ok((Glob::for_path(pattern, Case::Sensitive)?, name.to_owned()))
    };

    let classes = classes
        .into_iter()
        .map(parse)
        .collect::<Result<_, GlobError>>()?;
    Ok(OptionalKey(PathClassKey { classes }))
}

/// The name of a path class as a key. Created by [`path_class`].
#[derive(Clone, Debug)]
pub struct PathClassKey {
    /// Pattern and name of each class, in the order in which they are tried.
    classes: Vec<(Glob, String)>,
}

impl KeySource for PathClassKey {
    fn look_up(&self, head: &RequestHead<'_>, parts: &mut KeyParts) -> KeyLookup {
        let path = normalise(head.path());
        let mut classes = self.classes.iter();
        let class = classes.find(|(pattern, _)| pattern.matches(&path));
        KeyLookup::from_written(class.inspect(|(_, name)| parts.text(name)).is_some())
    }

    fn description(&self) -> Cow<'_, str> {
        "a known path class".into()
    }
}
