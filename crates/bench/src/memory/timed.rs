//! The time per decision of a subject. The calls through pointers are made once per round; the
//! loops inside are compiled for each subject.

use std::any::type_name;
use std::hint::black_box;

use super::cases::{Case, ORDER_LEN, write_name};
use super::subjects::{Setup, Subject};
use crate::harness::{Figures, Span, time, together};

/// Nanoseconds that a thread spends on a decision.
pub(super) const NS: &str = "ns_per_op";
/// The share of the time that was lost to other programs. It is not in [`NS`], but caches got cold
/// meanwhile.
pub(super) const WAITED: &str = "waited";

/// Runs a round on a subject that was filled.
pub(super) type Filled = Box<dyn FnMut(&Load<'_>) -> Figures>;

/// The load of a round, the same for every subject.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load<'a> {
    pub(super) keys: &'a [String],
    pub(super) order: &'a [u32],
    /// The position in the order at which to begin.
    pub(super) start: usize,
    /// Operations of each thread.
    pub(super) operations: u32,
    pub(super) threads: usize,
    pub(super) case: Case,
}

impl Load<'_> {
    /// Makes all decisions of one thread. Returns how many were allowed, which also keeps the
    /// decisions from being optimised away.
    #[inline]
    fn ask(&self, thread: usize, mut allow: impl FnMut(&String) -> bool) -> u32 {
        let order: &[u32; ORDER_LEN] = self.order.try_into().expect("orders have one length");
        let start = self.start + thread * (ORDER_LEN / self.threads);
        let numbers =
            (0..self.operations as usize).map(|step| order[(start + step) & (ORDER_LEN - 1)]);

        if self.case.is_read() {
            let mut key = String::new();
            let mut read = |number| {
                write_name(number, &mut key);
                u32::from(allow(&key))
            };
            numbers.map(&mut read).sum()
        } else {
            numbers
                .map(|number| u32::from(allow(&self.keys[number as usize])))
                .sum()
        }
    }
}

/// Creates a subject that contains these keys and, if `use_up`, has denied each of them.
pub(super) fn fill<S: Subject>(setup: &Setup, keys: &[String], use_up: bool) -> Filled {
    let mut subject = S::new(setup);
    for key in keys {
        while subject.allow_alone(key) && use_up {}
    }
    Box::new(move |load| round(&mut subject, load))
}

/// Measures inserting new keys into an empty subject.
pub(super) fn insert<S: Subject>(setup: &Setup, keys: &[String]) -> Figures {
    let mut subject = S::new(setup);
    let (took, allowed) = time(|| keys.iter().filter(|key| subject.allow_alone(key)).count());
    assert_eq!(allowed, keys.len(), "{} denied a new key", type_name::<S>());
    // Freeing is not part of inserting.
    drop(black_box(subject));
    let keys = u32::try_from(keys.len()).expect("keys are numbered by u32");
    figures(took, keys)
}

fn round<S: Subject>(subject: &mut S, load: &Load<'_>) -> Figures {
    let (took, allowed) = if load.threads == 1 {
        time(|| load.ask(0, |key| subject.allow_alone(key)))
    } else {
        // The mean over threads is the time that one of them spends on a decision.
        let (took, allowed) = together(load.threads, |thread| {
            load.ask(thread, |key| subject.allow(key))
        });
        (took, allowed.iter().sum())
    };
    let asked = load.operations * u32::try_from(load.threads).expect("a few threads");
    let expected = if load.case.is_allowed() { asked } else { 0 };
    assert_eq!(
        allowed,
        expected,
        "{} made a wrong decision, so its time is meaningless",
        type_name::<S>()
    );
    figures(took, asked)
}

fn figures(span: Span, operations: u32) -> Figures {
    Figures::from([
        (NS, span.ns_per_op(operations)),
        (WAITED, span.waited_share()),
    ])
}
