//! The ratios and tables of the benchmark.

use super::calls::{NS, SUBJECTS};
use super::subject::Subject;
use super::{APPLICATIONS, CALLS, LOAD};
use crate::harness::h2load::{self, RATE};
use crate::harness::{Goal, Ratio, Report, Table};
use clap::ValueEnum as _;

/// The limiters that most applications use.
const OTHERS: [Subject; 2] = [Subject::ExpressRateLimit, Subject::RateLimiterFlexible];
/// A synchronous call takes less than a microsecond.
const CALL_NS_MAX: f64 = 1_000.0;

/// Adds the ratios and the tables.
pub(super) fn complete(mut report: Report) -> Report {
    report.ratios = ratios(&report);
    let applications = h2load::table(APPLICATIONS, report.case(APPLICATIONS));
    report.tables = vec![applications, calls(&report)];
    report.notes = include_str!("notes.txt");
    report
}

/// All applications to Express alone, and leased limits to the other limiters.
fn ratios(report: &Report) -> Vec<Ratio> {
    let subjects = Subject::value_variants().iter().copied();
    let limited = subjects.filter(|subject| *subject != Subject::Express);
    let to_express = limited.map(|subject| (subject, Subject::Express));
    let leased = OTHERS.map(|other| (Subject::Leased, other));

    let pairs = to_express.chain(leased);
    let pairs = pairs.map(|(ours, theirs)| (ours.name(), theirs.name(), goal(ours, theirs)));
    report.ratios(Ratio::of_rounds, RATE, (APPLICATIONS, LOAD), pairs)
}

const fn goal(ours: Subject, theirs: Subject) -> Option<Goal> {
    match (ours, theirs) {
        (Subject::Leased, Subject::Express) => Some(Goal::AtLeast(0.93)),
        (Subject::Leased, _) => Some(Goal::AtLeast(1.25)),
        (Subject::HttpLeased, Subject::Express) => Some(Goal::AtLeast(0.70)),
        _ => None,
    }
}

fn calls(report: &Report) -> Table {
    let heads = ["subject", "ns/call", "fastest..slowest", "asked"];
    Table::new(CALLS, heads).with_lines(report.case(CALLS), |row| {
        let is_sync = row.subject == SUBJECTS[0];
        let asked = match row.median(NS) < CALL_NS_MAX {
            _ if !is_sync => "",
            true => "under 1,000: reached",
            false => "under 1,000: missed",
        };
        vec![
            row.subject.clone(),
            row.number(NS, 0),
            row.range(NS, 0),
            asked.to_owned(),
        ]
    })
}
