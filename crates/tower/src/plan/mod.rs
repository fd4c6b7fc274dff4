//! What a layer does with a request: which limits apply, and what they say.
//!
//! Owns the way from the request to the decision. Knows nothing of responses.

mod admit;
mod recipe;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Extensions;
use smallvec::SmallVec;
use tollgate::headers::Fields;
use tollgate::{Error, KeyError, Limiter};

pub(crate) use self::admit::{Admission, AtOnce};
use self::recipe::Without;
pub(crate) use self::recipe::{Charge, Cost, Kind, OfHead, Recipe, Settle};
use crate::answer::{Cause, OfRefusal};
use crate::by::{Missing, Subject};
use crate::head::Head;
use crate::observe::{Hooks, Warning, Watch};

/// Everything that a layer was told.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) limiter: Limiter,
    pub(crate) recipes: SmallVec<[Recipe; 2]>,
    pub(crate) skip: Vec<OfHead<bool>>,
    pub(crate) deny: Vec<OfHead<bool>>,
    pub(crate) look_up: Vec<LookUp>,
    /// How long a request may be held back until it passes; `None` when only queues hold it back.
    pub(crate) patience: Option<Duration>,
    pub(crate) fields: Fields,
    pub(crate) respond: Option<OfRefusal>,
    pub(crate) hooks: Hooks,
    pub(crate) watch: Arc<Watch>,
    /// What is wrong with the layer itself. Nothing is let through unlimited because of it.
    pub(crate) fault: Option<Fault>,
}

/// A limit that cannot be applied.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    limit: Arc<str>,
    what: Arc<str>,
}

/// Finds something out about a request, and says how to attach it to the request.
pub(crate) type LookUp =
    Arc<dyn Fn(&Head<'_>) -> Pin<Box<dyn Future<Output = Attach> + Send>> + Send + Sync>;
/// Attaches what was found out.
pub(crate) type Attach = Box<dyn FnOnce(&mut Extensions) + Send>;

/// What the limits ask of one request.
pub(crate) type Charges = SmallVec<[Charge; 1]>;

impl Plan {
    pub(crate) fn new(limiter: &Limiter) -> Self {
        Self {
            limiter: limiter.clone(),
            recipes: SmallVec::new(),
            skip: Vec::new(),
            deny: Vec::new(),
            look_up: Vec::new(),
            patience: None,
            fields: Fields::default(),
            respond: None,
            hooks: Hooks::default(),
            watch: Arc::new(Watch::default()),
            fault: None,
        }
    }

    /// Adds a limit, or notes what is wrong with it.
    pub(crate) fn add(&mut self, limit: &str, subject: impl Subject) {
        match Recipe::new(&self.limiter, limit, subject) {
            Ok(recipe) => {
                if self.recipes.iter().any(|other| other.limit == recipe.limit) {
                    Warning::AppliedTwice.tell(&recipe.limit);
                }
                self.recipes.push(recipe);
            }
            Err(error) => {
                self.fault.get_or_insert(Fault {
                    limit: limit.into(),
                    what: error.to_string().into(),
                });
            }
        }
    }

    /// What is wrong with the plan, if anything is.
    pub(crate) fn error(&self) -> Option<Error> {
        self.fault
            .as_ref()
            .and_then(|fault| self.limiter.rule(&fault.limit).err())
    }

    /// What the limits ask of a request; nothing when none applies.
    pub(crate) fn select(&self, head: &Head<'_>) -> Result<Charges, Box<Cause>> {
        let mut charges = Charges::new();
        if self.is_free(head)? {
            return Ok(charges);
        }
        for index in 0..self.recipes.len() {
            charges.extend(self.charge(index, head)?);
        }
        Ok(charges)
    }

    /// The same for a plan of one limit.
    #[inline]
    fn select_only(&self, head: &Head<'_>) -> Result<Option<Charge>, Box<Cause>> {
        if self.is_free(head)? {
            Ok(None)
        } else {
            self.charge(0, head)
        }
    }

    /// Whether a request passes uncounted, if it is not refused uncounted.
    #[inline]
    fn is_free(&self, head: &Head<'_>) -> Result<bool, Box<Cause>> {
        if let Some(error) = &self.fault {
            return Err(Box::new(Cause::Broken {
                what: error.what.to_string(),
            }));
        }
        if self.deny.iter().any(|is_listed| is_listed(head)) {
            return Err(Box::new(Cause::Listed));
        }
        Ok(self.skip.iter().any(|is_listed| is_listed(head)))
    }

    #[inline]
    fn charge(&self, index: usize, head: &Head<'_>) -> Result<Option<Charge>, Box<Cause>> {
        let recipe = &self.recipes[index];
        match recipe.charge(index, head) {
            Ok(charge) => Ok(Some(charge)),
            Err(Without::Charge) => Ok(None),
            Err(Without::Answer(missing)) => Err(Box::new(missing.into())),
            Err(Without::Key(error)) => Err(Box::new(bad_key(recipe, error))),
        }
    }
}

impl From<Missing> for Cause {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Refuse { status, what } => Self::Missing { status, what },
            Missing::Broken { what } => Self::Broken { what },
            // A limit that is skipped has no cause to refuse anything.
            Missing::Skip => Self::Broken {
                what: "a limit was skipped and asked all the same".to_owned(),
            },
        }
    }
}

#[cold]
fn bad_key(recipe: &Recipe, error: KeyError) -> Cause {
    Cause::BadKey {
        what: format!(
            "the limit {:?} cannot count this request: {error}",
            recipe.limit
        ),
    }
}

/// Without the functions, which have nothing to show.
impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            recipes,
            patience,
            fields,
            fault,
            ..
        } = self;
        let mut shown = f.debug_struct("Plan");
        shown
            .field("recipes", recipes)
            .field("patience", patience)
            .field("fields", fields)
            .field("fault", fault);
        shown.finish_non_exhaustive()
    }
}
