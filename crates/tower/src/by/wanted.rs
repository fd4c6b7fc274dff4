//! Keys that a request may lack, and the choice of what happens then.

use std::borrow::Cow;

use http::StatusCode;
use tollgate::KeyParts;

use super::{Missing, Subject};
use crate::head::Head;

/// Looks for a key that may not be there. Wrap it in [`Wanted`] to choose what happens without it.
pub trait Find: Send + Sync + 'static {
    /// Writes the key if it is there. Who answers anything but [`Found::Written`] has written
    /// nothing.
    fn find(&self, head: &Head<'_>, parts: &mut KeyParts) -> Found;

    /// What is looked for, as a noun, for those who lack it: `the header x-api-key`.
    fn what(&self) -> Cow<'_, str>;
}

/// What came of looking for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is there and written.
    Written,
    /// The request has none.
    Absent,
    /// Nobody can know: the application is put together wrongly, as this text says.
    Broken(String),
}

impl Found {
    /// Written if there was something to write.
    pub(super) const fn is(was_there: bool) -> Self {
        if was_there {
            Self::Written
        } else {
            Self::Absent
        }
    }

    /// The end of the search, or what else happens without the key.
    fn or_else(self, absent: impl FnOnce() -> Result<(), Missing>) -> Result<(), Missing> {
        match self {
            Self::Written => Ok(()),
            Self::Absent => absent(),
            Self::Broken(what) => Err(Missing::Broken { what }),
        }
    }
}

/// A key that a request may lack. It is no subject until it says what happens then:
/// [`or`](Self::or), [`or_skip`](Self::or_skip), [`or_refuse`](Self::or_refuse).
#[derive(Clone, Copy, Debug)]
#[must_use = "say what happens without the key: `or`, `or_skip` or `or_refuse`"]
pub struct Wanted<F>(pub F);

impl<F: Find> Wanted<F> {
    /// Counts for something else instead.
    pub fn or<S: Subject>(self, other: S) -> Or<F, S> {
        Or {
            wanted: self.0,
            other,
        }
    }

    /// Is not limited. Choose this only where another limit holds those without the key.
    pub fn or_skip(self) -> OrSkip<F> {
        OrSkip(self.0)
    }

    /// Is answered with a status, such as 401, and told what it lacks.
    pub fn or_refuse(self, status: StatusCode) -> OrRefuse<F> {
        OrRefuse {
            wanted: self.0,
            status,
        }
    }
}

/// See [`Wanted::or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<F, S> {
    wanted: F,
    other: S,
}

impl<F: Find, S: Subject> Subject for Or<F, S> {
    fn write(&self, head: &Head<'_>, parts: &mut KeyParts) -> Result<(), Missing> {
        self.wanted
            .find(head, parts)
            .or_else(|| self.other.write(head, parts))
    }
}

/// See [`Wanted::or_skip`].
#[derive(Clone, Copy, Debug)]
pub struct OrSkip<F>(F);

impl<F: Find> Subject for OrSkip<F> {
    fn write(&self, head: &Head<'_>, parts: &mut KeyParts) -> Result<(), Missing> {
        self.0.find(head, parts).or_else(|| Err(Missing::Skip))
    }
}

/// See [`Wanted::or_refuse`].
#[derive(Clone, Copy, Debug)]
pub struct OrRefuse<F> {
    wanted: F,
    status: StatusCode,
}

impl<F: Find> Subject for OrRefuse<F> {
    fn write(&self, head: &Head<'_>, parts: &mut KeyParts) -> Result<(), Missing> {
        let refuse = || Missing::Refuse {
            status: self.status,
            what: self.wanted.what().into_owned(),
        };
        self.wanted.find(head, parts).or_else(|| Err(refuse()))
    }
}
