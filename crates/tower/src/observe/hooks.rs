//! Functions of the application that are called with decisions.

use std::sync::Arc;

use tollgate::Decision;

use crate::request_head::RequestHead;

/// A function of the application that is called with a decision.
pub(crate) type DecisionHook = Arc<dyn Fn(&RequestHead<'_>, &Decision) + Send + Sync>;

/// The hooks of a layer, by the decisions for which they are called.
#[derive(Clone, Default)]
pub(crate) struct DecisionHooks {
    pub(crate) allowed: Vec<DecisionHook>,
    pub(crate) denied: Vec<DecisionHook>,
    /// Called in addition to those for the verdict.
    pub(crate) degraded: Vec<DecisionHook>,
}

impl DecisionHooks {
    /// Calls the hooks for a decision.
    pub(crate) fn call(&self, head: &RequestHead<'_>, decision: &Decision) {
        let verdict = if decision.is_allowed() {
            &self.allowed
        } else {
            &self.denied
        };
        verdict.iter().for_each(|hook| hook(head, decision));
        if decision.is_degraded() {
            self.degraded.iter().for_each(|hook| hook(head, decision));
        }
    }
}
