//! The ratios and tables of the benchmark.

use super::calls::{NS, SUBJECTS};
use super::subject::Subject;
use super::{APPLICATIONS, CALLS, LOAD};
use crate::harness::h2load::{CPU, RATE};
use crate::harness::{Goal, Ratio, Report, Table};
use clap::ValueEnum as _;

/// The limiters that most applications use.
const OTHERS: [Subject; 2] = [Subject::ExpressRateLimit, Subject::RateLimiterFlexible];
/// A synchronous call takes less than a microsecond.
const CALL_NS_MAX: f64 = 1_000.0;

/// Adds the ratios and the tables.
pub(super) fn complete(mut report: Report) -> Report {
    report.ratios = ratios(&report);
    report.tables = vec![applications(&report), calls(&report)];
    report.notes = include_str!("notes.txt");
    report
}

/// All applications to Express alone, and leased limits to the other limiters.
fn ratios(report: &Report) -> Vec<Ratio> {
    let limited = Subject::value_variants()
        .iter()
        .filter(|subject| **subject != Subject::Express)
        .map(|subject| (*subject, Subject::Express));
    let leased = OTHERS.map(|other| (Subject::Leased, other));
    let ratio = |(ours, theirs): (Subject, Subject)| {
        Some(Ratio::of_rounds(
            RATE,
            report.row(APPLICATIONS, LOAD, ours.name())?,
            report.row(APPLICATIONS, LOAD, theirs.name())?,
            goal(ours, theirs),
        ))
    };
    limited.chain(leased).filter_map(ratio).collect()
}

const fn goal(ours: Subject, theirs: Subject) -> Option<Goal> {
    match (ours, theirs) {
        (Subject::Leased, Subject::Express) => Some(Goal::AtLeast(0.93)),
        (Subject::Leased, _) => Some(Goal::AtLeast(1.25)),
        (Subject::HttpLeased, Subject::Express) => Some(Goal::AtLeast(0.70)),
        _ => None,
    }
}

fn applications(report: &Report) -> Table {
    let heads = [
        "subject",
        "requests/s",
        "slowest..fastest",
        "cpu us/request",
    ];
    Table::new(APPLICATIONS, heads).with_lines(report.case(APPLICATIONS), |row| {
        vec![
            row.subject.clone(),
            row.count(RATE),
            row.counts(RATE),
            row.number(CPU, 1),
        ]
    })
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
