//! The encoding of store calls for the script, and of its replies. The format is described at the
//! top of `scripts/batch.lua`.

mod call;
mod flags;
mod hash_slot;
mod operation;
mod reply;

pub(crate) use call::{CallEncoder, StoreCall};
pub(crate) use hash_slot::{SLOTS, hash_slot};
pub(crate) use operation::Operation;
pub(crate) use reply::{DemandTerms, ScriptError, ScriptReply, read_replies};
