//! Calls in the process of Node, without an application: `clients/node/bench/calls.mjs` measures
//! them and prints a line with the nanoseconds per call for each subject.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::CALLS;
use crate::harness::{Bench, Entrant, Figures, process};

/// Nanoseconds per call.
pub(super) const NS: &str = "ns";
/// The subjects, as the program names them.
pub(super) const SUBJECTS: [&str; 5] = [
    "tryCheck, memory",
    "check, memory",
    "check of two limits, memory",
    "rate-limiter-flexible, memory",
    "express-rate-limit's store, memory",
];

/// Measures all subjects in turn, each in a process of its own.
pub(super) fn measure(bench: &mut Bench, package: &Path) -> Result<()> {
    let program = package.join("bench/calls.mjs");
    let entrants = SUBJECTS.map(|subject| {
        let program = program.clone();
        Entrant::new(subject, "one hot key", move |length| {
            let mut command = Command::new("node");
            command.arg(&program).arg(subject);
            command.arg(length.as_millis().to_string());
            let ns = process::run(&mut command, |text| text.trim().parse::<f64>().ok())?;
            Ok(Figures::from([(NS, ns)]))
        })
    });
    bench.measure(CALLS, &[], entrants.into())?;
    Ok(())
}
