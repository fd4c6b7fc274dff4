//! Subjects of different types in one list. The call through `dyn` is made once per round; the loop
//! inside it is compiled for each subject.

use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::Barrier;

use super::bytes::{self, Footprint};
use super::cap::{self, Flood, FloodResult};
use super::cases::KeyTextPlace;
use super::keys::{ORDER_LEN, write_name};
use super::subjects::{Setup, Subject};
use crate::timing::{Span, time};

/// A type of subject.
pub(super) trait Entrant {
    fn name(&self) -> &'static str;
    /// Creates a subject that contains these keys and, if `use_up`, has denied each of them.
    fn fill(&self, setup: &Setup, keys: &[String], use_up: bool) -> Box<dyn FilledSubject>;
    /// Measures the time per key of inserting new keys into an empty subject.
    fn insert(&self, setup: &Setup, keys: &[String]) -> Round;
    fn bytes(&self, setup: &Setup, keys: &[String]) -> Footprint;
    fn flood(&self, setup: &Setup, flood: Flood) -> FloodResult;
}

/// A subject that is ready to be measured.
pub(super) trait FilledSubject {
    fn name(&self) -> &'static str;
    /// Measures the time that a thread spends on each of its decisions.
    fn round(&mut self, load: &Load<'_>) -> Round;
}

/// The result of one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) ns_per_op: f64,
    /// The share of the time that was lost to other programs. It is not in `ns_per_op`, but caches
    /// got cold meanwhile.
    pub(super) waited: f64,
}

impl Round {
    fn new(span: Span, operations: u32) -> Self {
        Self {
            ns_per_op: span.ns_per_op(operations),
            waited: span.waited_share(),
        }
    }
}

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
    /// Where the text of each key is.
    pub(super) texts: KeyTextPlace,
    /// The decision that is expected.
    pub(super) is_allowed: bool,
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
        match self.texts {
            KeyTextPlace::Scattered => numbers
                .map(|number| u32::from(allow(&self.keys[number as usize])))
                .sum(),
            KeyTextPlace::Read => {
                let mut key = String::new();
                let mut read = |number| {
                    write_name(number, &mut key);
                    u32::from(allow(&key))
                };
                numbers.map(&mut read).sum()
            }
        }
    }
}

pub(super) struct SubjectKind<S>(PhantomData<fn() -> S>);

impl<S: Subject> SubjectKind<S> {
    pub(super) fn entrant() -> Box<dyn Entrant> {
        Box::new(Self(PhantomData))
    }
}

impl<S: Subject> Entrant for SubjectKind<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn fill(&self, setup: &Setup, keys: &[String], use_up: bool) -> Box<dyn FilledSubject> {
        let mut subject = S::new(setup);
        for key in keys {
            while subject.allow_alone(key) && use_up {}
        }
        Box::new(SubjectInstance(subject))
    }

    fn insert(&self, setup: &Setup, keys: &[String]) -> Round {
        let mut subject = S::new(setup);
        let (took, allowed) = time(|| keys.iter().filter(|key| subject.allow_alone(key)).count());
        assert_eq!(allowed, keys.len(), "{} denied a new key", S::NAME);
        // Freeing is not part of inserting.
        drop(black_box(subject));
        Round::new(
            took,
            u32::try_from(keys.len()).expect("keys are numbered by u32"),
        )
    }

    fn bytes(&self, setup: &Setup, keys: &[String]) -> Footprint {
        bytes::measure::<S>(setup, keys)
    }

    fn flood(&self, setup: &Setup, flood: Flood) -> FloodResult {
        cap::flood::<S>(setup, flood)
    }
}

struct SubjectInstance<S>(S);

impl<S: Subject> SubjectInstance<S> {
    fn alone(&mut self, load: &Load<'_>) -> (Span, u32) {
        time(|| load.ask(0, |key| self.0.allow_alone(key)))
    }

    /// Runs all threads, which start together. The mean over threads is the time that one of them
    /// spends on a decision.
    fn together(&self, load: &Load<'_>) -> (Span, u32) {
        let barrier = Barrier::new(load.threads);
        let run = |thread: usize| {
            barrier.wait();
            time(|| load.ask(thread, |key| self.0.allow(key)))
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..load.threads)
                .map(|thread| scope.spawn(move || run(thread)))
                .collect();
            let mut sum = (Span::default(), 0);
            for thread in threads {
                let (took, allowed) = thread.join().expect("subjects do not panic");
                sum.0 += took;
                sum.1 += allowed;
            }
            sum
        })
    }
}

impl<S: Subject> FilledSubject for SubjectInstance<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn round(&mut self, load: &Load<'_>) -> Round {
        let (took, allowed) = if load.threads == 1 {
            self.alone(load)
        } else {
            self.together(load)
        };
        let asked = load.operations * u32::try_from(load.threads).expect("a few threads");
        let expected = if load.is_allowed { asked } else { 0 };
        assert_eq!(
            allowed,
            expected,
            "{} made a wrong decision, so its time is meaningless",
            S::NAME
        );
        Round::new(took, asked)
    }
}
