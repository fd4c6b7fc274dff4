//! Classes of paths, whatever the spelling.

use std::borrow::Cow;

use tollgate::KeyParts;
use tollgate_subject::{Case, Glob, GlobError, normalise};

use super::{Find, Found, Wanted};
use crate::head::Head;

/// The name of the first class that the path belongs to. Paths are compared in one spelling, so
/// that `/auth/./login` and `/auth/%6Cogin` are in the same class as `/auth/login`.
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
) -> Result<Wanted<PathClass>, GlobError> {
    let class = |(paths, name): (&str, &str)| {
        Ok((Glob::for_path(paths, Case::Sensitive)?, name.to_owned()))
    };
    let classes = classes
        .into_iter()
        .map(class)
        .collect::<Result<_, GlobError>>()?;
    Ok(Wanted(PathClass { classes }))
}

/// See [`path_class`].
#[derive(Clone, Debug)]
pub struct PathClass {
    classes: Vec<(Glob, String)>,
}

impl Find for PathClass {
    fn find(&self, head: &Head<'_>, parts: &mut KeyParts) -> Found {
        let path = normalise(head.path());
        let class = self.classes.iter().find(|(paths, _)| paths.matches(&path));
        Found::is(class.inspect(|(_, name)| parts.text(name)).is_some())
    }

    fn what(&self) -> Cow<'_, str> {
        "a path of a known class".into()
    }
}
