use super::super::cells::tests::cell;
use super::super::figures::tests::{row, row_of};
use super::*;

#[test]
fn the_table_shows_figures_and_judgements() {
    let rows = vec![
        row(Mode::Strict, 2, 1_000),
        row(Mode::Leased, 16, 1_002),
        row(Mode::Local, 2, 2_000),
    ];
    let mut report = test_report(&[], 0, rows);
    report.remarks = vec!["skew: skipped: rain".to_owned()];
    complete(&mut report, &[]);
    let shown = report.to_string();
    let expected = "\
Example 9000, 2 cores
3 rounds, medians

What replicas admit together, compared with what the limit allows

case                     mode   N  load  offered  admitted  central  denied  fallback  late  errors          over  bound   used  calls/request  /admitted  /denied  p50  p99  p99.9 ms  local  retry ok
cold 1000-once         strict   2    3x    3,000     1,000    1,000   2,000         0     -       0           0.0      0  1.000         0.0100     0.0300   0.0150       0.5  0.5  0.5   50 %    1 of 2
cold 1000-once         leased  16    3x    3,000     1,002    1,000   1,998         0     -       0  EXCEEDED 2.0      0  1.002         0.0100     0.0299   0.0150       0.5  0.5  0.5   50 %    1 of 2
cold 1000-once  local (wrong)   2    3x    3,000     2,000    1,000   1,000         0     -       0        1000.0      -  2.000         0.0100     0.0150   0.0300       0.5  0.5  0.5   50 %    1 of 2

- skew: skipped: rain.
- 1 of 2 cells stayed within their bound.
- Replicas are processes";
    assert_eq!(&shown[..expected.len().min(shown.len())], expected);
}

#[test]
fn a_late_load_is_reported() {
    let sent_late = |us| {
        let figures = Figures::from([("sent_late_p99_us", us)]);
        lateness(&[Row::new("grid", "16 replicas", "leased", vec![figures])])
    };
    let message = "In 1 cell the machine could not keep up with the load: \
                   250.0 ms late in grid, leased, 16 replicas";
    assert_eq!(sent_late(250_000.0).as_deref(), Some(message));
    assert_eq!(sent_late(900.0), None);
}

#[test]
fn an_excess_is_remarked() {
    let cell = cell(Case::Cold, Mode::Strict, 2, "1000-once");
    let expected = [
        "EXCEEDED: cold 1000-once, strict, 2 replicas, 3x: over by 2.0, bound 0",
        "missed: cold 1000-once, strict, 2 replicas, 3x: 1 of 2 retries were denied",
    ];
    assert_eq!(remarks(&cell, &row_of(&cell, 1_002)), expected);
}

#[test]
fn bars_are_labelled_with_the_replicas_and_have_a_bound() {
    let rows = vec![
        row(Mode::Strict, 2, 1_000),
        row(Mode::Eventual, 2, 1_050),
        row(Mode::Local, 4, 3_000),
    ];
    let mut report = test_report(&[], 0, rows);
    draw(&mut report);
    let picture = report.picture;
    let [cold] = &picture.panels[..] else {
        panic!("not one panel: {picture:?}")
    };
    let found: Vec<_> = cold
        .bars
        .iter()
        .map(|bar| (&*bar.label, &*bar.series, bar.value.round()))
        .collect();
    let expected = [
        ("2 replicas", "strict", 0.0),
        ("2 replicas", "eventual", 50.0),
        ("2 replicas", "bound of eventual", 100.0),
        ("4 replicas", "local (wrong)", 2_000.0),
    ];
    assert_eq!(found, expected);
}
const TARGETS: [Target<'static>; 3] = [
    Target {
        figure: "utilisation_lowest",
        goal: Some(Goal::AtLeast(0.97)),
        is_for_strict: true,
    },
    Target {
        figure: "calls_per_denied",
        goal: Some(Goal::AtMost(0.02)),
        is_for_strict: false,
    },
    Target {
        figure: "false_denials",
        goal: None,
        is_for_strict: false,
    },
];

/// A cell with all of these targets, and its row if this number of requests was admitted.
fn measured(mode: Mode, admitted: usize) -> (Cell, Row) {
    let cell = Cell {
        targets: &TARGETS,
        ..cell(Case::Cold, mode, 2, "1000-once")
    };
    let mut row = row_of(&cell, admitted);
    row.add(Figures::from([("idle_calls_per_s", 4.0)]));
    (cell, row)
}

#[test]
fn goals_are_those_of_leases_unless_they_are_also_those_of_strict_limits() {
    let missed = |mode, admitted| {
        let (cell, row) = measured(mode, admitted);
        let mut remarks = remarks(&cell, &row);
        remarks.retain(|remark| remark.contains("goal"));
        remarks
    };
    let utilisation = "2 replicas, 3x: utilisation_lowest 0.900, goal 0.97 or more";
    for mode in [Mode::Leased, Mode::Strict] {
        let cell = format!("missed: cold 1000-once, {}", mode.name());
        assert_eq!(missed(mode, 900), [format!("{cell}, {utilisation}")]);
    }
    // 30 calls for 10 denials.
    let calls = "2 replicas, 3x: calls_per_denied 3.000, goal 0.02 or less";
    let cell = "missed: cold 1000-once, leased";
    assert_eq!(missed(Mode::Leased, 2_990), [format!("{cell}, {calls}")]);
    assert!(missed(Mode::Strict, 2_990).is_empty());
}

#[test]
fn a_line_has_the_goal_beside_all_modes() {
    let (strict, strict_row) = measured(Mode::Strict, 960);
    let (leased, leased_row) = measured(Mode::Leased, 1_000);
    let report = test_report(&[], 0, vec![strict_row, leased_row]);
    let shown = goals(&[strict, leased], &report).unwrap().to_string();
    let expected = "\
Goals

case                        load              figure          goal  leased  strict  local  result  idle/s
cold 1000-once  2 replicas at 3x  utilisation_lowest  0.97 or more   1.000   0.960      -  missed       4
cold 1000-once  2 replicas at 3x    calls_per_denied  0.02 or less   0.015   0.015      -     met       4
cold 1000-once  2 replicas at 3x       false_denials             -   0.000   0.000      -       -       4
";
    assert_eq!(shown, expected);
    assert!(goals(&[strict], &report).is_none());
}
