//! The report as a picture, with the figures that matter when choosing a mode.

use std::collections::BTreeSet;

use super::cells::{Case, EVERY_MODE, Mode, Topology};
use super::row::Row;
use super::table::Report;
use crate::harness::panels::{Group, Panel, Picture, Scale};

/// The bound of `eventual` is shown between the modes that keep a bound and the one that has none.
const SERIES: [&str; 5] = [
    "strict",
    "leased",
    "eventual",
    "bound of eventual",
    "local (wrong on purpose)",
];

pub(super) fn draw(report: &Report) -> Picture {
    let [grid, cold] = [Case::Grid, Case::Cold].map(|case| CaseRows::new(report, case));
    let loads = |rows: &CaseRows<'_>| rows.0.iter().map(|row| row.cell.load).collect::<Vec<_>>();
    let cold_load = loads(&cold).into_iter().fold(f64::INFINITY, f64::min);
    let highest = loads(&grid).into_iter().fold(0.0, f64::max);
    let double = if loads(&grid).contains(&2.0) {
        2.0
    } else {
        highest
    };

    let over = |row: &Row| Some(row.over());
    let is_shared = |row: &Row| row.cell.mode != Mode::Local;
    let used = |row: &Row| row.utilisation.filter(|_| is_shared(row));
    let calls = |row: &Row| row.calls_per_request.filter(|_| is_shared(row));
    let panel = |title: String, scale, digits, groups| Panel {
        title,
        scale,
        digits,
        groups,
    };
    let mut panels = vec![
        panel(
            "Units over a limit of 1,000, a cold key used by all replicas at once".to_owned(),
            Scale::Logarithmic(1.0),
            0,
            cold.groups(cold_load, over, true),
        ),
        panel(
            format!(
                "Units over a limit of 1,000/s at {highest} times the load, \
                 worst of all intervals"
            ),
            Scale::Logarithmic(1.0),
            0,
            grid.groups(highest, over, true),
        ),
        panel(
            format!("Utilisation relative to an ideal limiter, at {double} times the load"),
            Scale::Linear(1.0),
            3,
            grid.groups(double, used, false),
        ),
        panel(
            format!("Store calls per request, at {highest} times the load"),
            Scale::Logarithmic(0.001),
            4,
            grid.groups(highest, calls, false),
        ),
    ];
    panels.retain(|panel| !panel.groups.is_empty());
    Picture {
        title: "Replicas that share a limit: what they admit together".to_owned(),
        subtitle: format!(
            "Real processes over one Redis, grouped by number of replicas. {}, {} cores, \
             shared with the load generator.",
            report.machine.cpu, report.machine.cores
        ),
        series: SERIES.map(str::to_owned).to_vec(),
        panels,
    }
}

/// The rows of a case on one server.
struct CaseRows<'a>(Vec<&'a Row>);

impl<'a> CaseRows<'a> {
    fn new(report: &'a Report, case: Case) -> Self {
        let is_of_case =
            |row: &&Row| row.cell.case == case && row.cell.topology == Topology::Single;
        Self(report.rows.iter().filter(is_of_case).collect())
    }

    /// One group of bars for each number of replicas.
    #[expect(clippy::cast_precision_loss, reason = "a bound of some hundred units")]
    fn groups(
        &self,
        load: f64,
        value: impl Fn(&Row) -> Option<f64>,
        with_bound: bool,
    ) -> Vec<Group> {
        let rows = || {
            self.0
                .iter()
                .filter(|row| row.cell.load.total_cmp(&load).is_eq())
        };
        let group = |replicas: usize| {
            let row =
                |mode| rows().find(|row| row.cell.mode == mode && row.cell.replicas == replicas);
            let [strict, leased, eventual, local] =
                EVERY_MODE.map(|mode| row(mode).and_then(|row| value(row)));
            let bound = row(Mode::Eventual).filter(|_| with_bound);
            let bound = bound
                .and_then(|row| row.excess_bound)
                .map(|bound| bound as f64);
            let plural = if replicas == 1 { "" } else { "s" };
            Group {
                label: format!("{replicas} replica{plural}"),
                values: vec![strict, leased, eventual, bound, local],
            }
        };
        let replicas: BTreeSet<usize> = rows().map(|row| row.cell.replicas).collect();
        replicas.into_iter().map(group).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;
    use crate::harness::machine::Machine;

    #[test]
    fn every_number_of_replicas_is_a_group_with_a_bound() {
        let machine = Machine {
            cores: 2,
            cpu: "Example 9000".to_owned(),
        };
        let rows = vec![
            row(Mode::Strict, 2, 1_000),
            row(Mode::Eventual, 2, 1_050),
            row(Mode::Local, 4, 3_000),
        ];
        let picture = draw(&Report {
            machine,
            others: 0.0,
            skipped: Vec::new(),
            broken: Vec::new(),
            rows,
        });
        let [cold] = &picture.panels[..] else {
            panic!("not one panel: {picture:?}")
        };
        let labels: Vec<&str> = cold
            .groups
            .iter()
            .map(|group| group.label.as_str())
            .collect();
        assert_eq!(labels, ["2 replicas", "4 replicas"]);
        let rounded = cold.groups[0]
            .values
            .iter()
            .map(|value| value.map(f64::round))
            .collect::<Vec<_>>();
        assert_eq!(rounded, [Some(0.0), None, Some(50.0), Some(100.0), None]);
    }
}
