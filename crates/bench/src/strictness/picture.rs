//! The report as a picture, with the figures that matter when choosing a mode.

use super::plan::{Case, Mode, Topology};
use super::report::Report;
use super::row::Row;
use crate::panels::{Group, Panel, Picture, Scale};

const MODES: [Mode; 4] = [Mode::Strict, Mode::Leased, Mode::Eventual, Mode::Local];
/// The bound of `eventual` is shown between the modes that keep a bound and the one that has none.
const SERIES: [&str; 5] = [
    "strict",
    "leased",
    "eventual",
    "bound of eventual",
    "local (wrong on purpose)",
];

pub(super) fn draw(report: &Report) -> Picture {
    let grid = CaseRows {
        report,
        case: Case::Grid,
    };
    let cold = CaseRows {
        report,
        case: Case::Cold,
    };
    let highest = grid.loads().into_iter().fold(0.0, f64::max);
    let double = grid
        .loads()
        .into_iter()
        .find(|load| (*load - 2.0).abs() < 1e-9)
        .unwrap_or(highest);
    let over = |row: &Row| Some(row.over());
    let used = |row: &Row| row.utilisation.filter(|_| row.mode != Mode::Local);
    let calls = |row: &Row| row.calls_per_request.filter(|_| row.mode != Mode::Local);
    let panel = |title: String, scale, digits, groups| Panel {
        title,
        scale,
        digits,
        groups,
    };
    let panels = vec![
        panel(
            "Units over a limit of 1,000, a cold key used by all replicas at once".to_owned(),
            Scale::Logarithmic(1.0),
            0,
            cold.groups(cold.loads().first().copied(), over, true),
        ),
        panel(
            format!(
                "Units over a limit of 1,000/s at {highest} times the load, \
                 worst of all intervals"
            ),
            Scale::Logarithmic(1.0),
            0,
            grid.groups(Some(highest), over, true),
        ),
        panel(
            format!("Utilisation relative to an ideal limiter, at {double} times the load"),
            Scale::Linear(1.0),
            3,
            grid.groups(Some(double), used, false),
        ),
        panel(
            format!("Store calls per request, at {highest} times the load"),
            Scale::Logarithmic(0.001),
            4,
            grid.groups(Some(highest), calls, false),
        ),
    ];
    Picture {
        title: "Replicas that share a limit: what they admit together".to_owned(),
        subtitle: format!(
            "Real processes over one Redis, grouped by number of replicas. {}, {} cores, \
             shared with the load generator.",
            report.machine.cpu, report.machine.cores
        ),
        series: SERIES.map(str::to_owned).to_vec(),
        panels: panels
            .into_iter()
            .filter(|panel| !panel.groups.is_empty())
            .collect(),
    }
}

/// The rows of a case on one server.
struct CaseRows<'a> {
    report: &'a Report,
    case: Case,
}

impl CaseRows<'_> {
    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.report
            .rows
            .iter()
            .filter(|row| row.case == self.case && row.topology == Topology::Single)
    }

    fn loads(&self) -> Vec<f64> {
        let mut loads: Vec<f64> = self.rows().map(|row| row.load).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        loads
    }

    /// One group of bars for each number of replicas.
    fn groups(
        &self,
        load: Option<f64>,
        value: impl Fn(&Row) -> Option<f64>,
        with_bound: bool,
    ) -> Vec<Group> {
        let rows = || self.rows().filter(|row| Some(row.load) == load);
        let mut replicas: Vec<usize> = rows().map(|row| row.replicas).collect();
        replicas.sort_unstable();
        replicas.dedup();
        let group = |replicas: usize| {
            let row = |mode| rows().find(|row| row.mode == mode && row.replicas == replicas);
            let [strict, leased, eventual, local] = MODES.map(|mode| row(mode).and_then(&value));
            let bound = row(Mode::Eventual)
                .and_then(|row| row.excess_bound)
                .filter(|_| with_bound);
            let bound = bound
                .and_then(|bound| u32::try_from(bound).ok())
                .map(f64::from);
            let label = if replicas == 1 {
                "1 replica".to_owned()
            } else {
                format!("{replicas} replicas")
            };
            Group {
                label,
                values: vec![strict, leased, eventual, bound, local],
            }
        };
        replicas.into_iter().map(group).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;
    use crate::machine::Machine;

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
