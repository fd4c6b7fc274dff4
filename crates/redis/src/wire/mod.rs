//! What goes to the script and what comes back: see the head of `scripts/batch.lua`.

mod answer;
mod request;

pub(crate) use answer::{Answered, Asked, answers};
pub(crate) use request::{Keys, Request, Verb};
