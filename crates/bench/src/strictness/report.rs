//! The table, the picture and the remarks of the experiment.

use super::cells::{Case, Cell, Mode, Target};
use crate::harness::prelude::*;

/// A load that is sent later than this is lower than nominal.
const LATE_US: f64 = 100_000.0;

/// Adds the tables, the picture and the remarks about all cells.
pub(super) fn complete(report: &mut Report, cells: &[Cell]) {
    let judged = report
        .rows
        .iter()
        .filter(|row| row.median("excess_bound") >= 0.0);
    let judged = judged.count();
    let within = judged - exceeded(report);

    report.remarks.extend(lateness(&report.rows));
    report.remarks.push(format!(
        "{within} of {judged} cells stayed within their bound"
    ));
    report.tables = vec![table(&report.rows)];
    report.tables.extend(goals(cells, report));
    report.notes = include_str!("notes.txt");
    draw(report);
}

/// The number of cells in which more was admitted than the bound allows.
pub(super) fn exceeded(report: &Report) -> usize {
    let rows = report.rows.iter();
    rows.filter(|row| row.median("is_exceeded") > 0.0).count()
}

/// What is wrong in a cell: an excess, a missed goal, wrong retry times.
pub(super) fn remarks(cell: &Cell, row: &Row) -> Vec<String> {
    let mut remarks = Vec::new();
    if row.median("is_exceeded") > 0.0 {
        let excess = row.text("over by {over:1}, bound {excess_bound:0}");
        remarks.push(format!("EXCEEDED: {cell}: {excess}"));
    }

    let values = cell
        .targets
        .iter()
        .map(|target| (target, row.median(target.figure)));
    for (target, value) in values.filter(|(target, value)| target.is_missed(cell.mode, *value)) {
        let (figure, found) = (target.figure, number(value, target.digits()));
        let goal = target.goal_text();
        remarks.push(format!("missed: {cell}: {figure} {found}, goal {goal}"));
    }

    let (kept, retries) = (row.median("retries_kept"), row.median("retries"));
    if kept < retries {
        let denied = retries - kept;
        remarks.push(format!(
            "missed: {cell}: {denied} of {retries} retries were denied"
        ));
    }
    remarks
}

/// A remark if loads were late. In the cold case all requests are due at the same time, so some are
/// always late.
fn lateness(rows: &[Row]) -> Option<String> {
    let (cold, late_us) = (word(&Case::Cold), |row: &Row| {
        row.median("sent_late_p99_us")
    });
    let is_late = |row: &&Row| late_us(row) > LATE_US && !row.case.starts_with(&cold);
    let late = || rows.iter().filter(is_late);
    let latest = late().max_by(|a, b| late_us(a).total_cmp(&late_us(b)))?;
    let cells = counted(late().count(), "cell");
    let latest = latest.text("{sent_late_p99_us:ms} ms late in {case}, {subject}, {load}");
    Some(format!(
        "In {cells} the machine could not keep up with the load: {latest}"
    ))
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        ("case", "{case}"),
        ("mode", "{subject}"),
        ("N", "{replicas:0}"),
        ("load", "{load:}x"),
        ("offered", "{offered:,}"),
        ("admitted", "{admitted:,}"),
        ("central", "{ideal_units:,}"),
        ("denied", "{denied:,}"),
        ("fallback", "{degraded:,}"),
        ("late", "{late:0}"),
        ("errors", "{errors:,}"),
        ("over", "{over:1}"),
        ("bound", "{excess_bound:0}"),
        ("used", "{utilisation:3}"),
        ("calls/request", "{calls_per_request:4}"),
        ("/admitted", "{calls_per_admitted:4}"),
        ("/denied", "{calls_per_denied:4}"),
        (
            "p50  p99  p99.9 ms",
            "{p50_us:ms}  {p99_us:ms}  {p999_us:ms}",
        ),
        ("local", "{local_share:%0}"),
        ("retry ok", "{retries_kept:0} of {retries:0}"),
    ];
    let title = "What replicas admit together, compared with what the limit allows";
    let table = Table::new(title, columns.map(|(head, _)| head));
    table.with_lines(rows, |row| {
        let cell = |(head, template)| match (head, row.text(template)) {
            ("over", over) if row.median("is_exceeded") > 0.0 => format!("EXCEEDED {over}"),
            ("retry ok", kept) if row.median("retries") > 0.0 => kept,
            ("retry ok", _) => "-".to_owned(),
            (_, text) => text,
        };
        columns.map(cell).into()
    })
}

/// The goals of the experiment beside what was measured; a missed one does not fail the experiment.
/// A line for each figure of a leased cell that has a goal or is reported, with the other modes of
/// the same case. `None` if there is no such cell.
fn goals(cells: &[Cell], report: &Report) -> Option<Table> {
    let heads = [
        "case", "load", "figure", "goal", "leased", "strict", "local", "result", "idle/s",
    ];
    let leased = cells.iter().filter(|cell| cell.mode == Mode::Leased);
    let targets = leased.flat_map(|cell| cell.targets.iter().map(move |target| (cell, target)));
    let lines = targets.filter_map(|(cell, target)| goal(cell, target, report));
    let lines: Vec<_> = lines.collect();
    let table = Table::new("Goals", heads);
    (!lines.is_empty()).then(|| table.with_lines(lines, |line| line))
}

fn goal(cell: &Cell, target: &Target<'_>, report: &Report) -> Option<Vec<String>> {
    let (case, load) = (cell.name(), cell.load_text());
    let modes = [Mode::Leased, Mode::Strict, Mode::Local];
    let rows = modes.map(|mode| report.row(&case, &load, &mode.name()));
    let values = rows.map(|row| row.map_or(f64::NAN, |row| row.median(target.figure)));
    let idle = rows[0]?.text("{idle_calls_per_s:0}");

    let mut judged = modes.into_iter().zip(values);
    let is_missed = judged.any(|(mode, value)| target.is_missed(mode, value));
    let result = target
        .goal
        .map(|_| if is_missed { "missed" } else { "met" });

    let mut line = vec![case, load, target.figure.to_owned(), target.goal_text()];
    line.extend(values.map(|value| number(value, target.digits())));
    line.extend([or_dash(result), idle]);
    Some(line)
}

/// Draws the figures that matter when choosing a mode, of the cells on one server.
fn draw(report: &mut Report) {
    let grid = || report.case("grid 1000-per-s");
    let at = |load: f64| grid().filter(move |row| row.median("load").total_cmp(&load).is_eq());
    let highest = grid().map(|row| row.median("load")).fold(0.0, f64::max);
    let double = at(2.0).next().map_or(highest, |_| 2.0);

    let over = "Units over a limit of 1,000";
    let calls = "Store calls per";
    let panels = [
        (
            format!("{over}, a cold key used by all replicas at once"),
            bars(report.case("cold 1000-once"), "over"),
        ),
        (
            format!("{over}/s at {highest} times the load, worst of all intervals"),
            bars(at(highest), "over"),
        ),
        (
            format!("Utilisation relative to an ideal limiter, at {double} times the load"),
            bars(at(double), "utilisation"),
        ),
        (
            format!("{calls} request, at {highest} times the load"),
            bars(at(highest), "calls_per_request"),
        ),
        (
            format!("{calls} request, 1,000 requests/s on a key that is never denied"),
            bars(report.case("plenty 20000-per-s"), "calls_per_request"),
        ),
        (
            format!("{calls} second, 1,000 requests/s on a key with a limit of 10/s"),
            bars(report.case("denied 10-per-s"), "calls_per_s"),
        ),
    ];
    let panels = panels.into_iter().filter(|(_, bars)| !bars.is_empty());
    let panels = panels.map(|(title, bars)| Panel { title, bars }).collect();
    report.draw_panels(
        "Replicas that share a limit: what they admit together",
        "Real processes over one Redis, grouped by number of replicas; they share the machine with \
         the load generator.",
        panels,
    );
}

/// A bar for each mode and number of replicas. An excess is shown with the bound of `eventual`;
/// other figures say nothing about replicas that count separately.
fn bars<'a>(rows: impl Iterator<Item = &'a Row>, figure: &'static str) -> Vec<Bar> {
    let (eventual, local) = (Mode::Eventual.name(), Mode::Local.name());
    let bars = rows.flat_map(|row| {
        let is_shown = figure == "over" || row.subject != local;
        let is_bounded = figure == "over" && row.subject == eventual;
        let own = is_shown.then(|| (row.subject.clone(), figure));
        let bound = is_bounded.then(|| ("bound of eventual".to_owned(), "excess_bound"));
        own.into_iter().chain(bound).map(|(series, figure)| Bar {
            label: counted(whole(row.median("replicas")), "replica"),
            series,
            value: row.median(figure),
        })
    });
    bars.filter(|bar| !bar.value.is_nan()).collect()
}

#[cfg(test)]
mod tests;
