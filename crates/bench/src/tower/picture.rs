//! The report as a picture.

use super::report::{Group as Measured, Report};
use super::subject::Subject;
use crate::panels::{Group, Panel, Picture, Scale};

pub(super) fn draw(report: &Report) -> Picture {
    let rate = |group: &Measured, subject| group.row(subject).map(|row| row.median.requests_per_s);
    let cpu = |group: &Measured, subject| group.row(subject).map(|row| row.median.cpu_us);
    let added = |group: &Measured, subject| {
        group
            .calls(subject)
            .filter(|_| subject != Subject::Bare)
            .map(|calls| calls.added_ns)
    };
    let added = Panel {
        // A refusal may cost a hundred times what a pass does.
        scale: Scale::Logarithmic(10.0),
        ..panel(
            report,
            "Nanoseconds that a layer adds to a call, without sockets: shorter is better",
            0,
            added,
        )
    };
    Picture {
        title: "An axum hello, and what a rate limit costs it".to_owned(),
        subtitle: format!(
            "Median of {} rounds. {}, {} cores, shared with the load generator.",
            report.rounds, report.machine.cpu, report.machine.cores
        ),
        series: Subject::ALL
            .map(|subject| subject.name().to_owned())
            .to_vec(),
        panels: vec![
            panel(
                report,
                "Requests per second, over HTTP/1.1: taller is better",
                0,
                rate,
            ),
            panel(
                report,
                "Microseconds of a core per request, in the server: shorter is better",
                1,
                cpu,
            ),
            added,
        ],
    }
}

fn panel(
    report: &Report,
    title: &str,
    digits: usize,
    value: impl Fn(&Measured, Subject) -> Option<f64>,
) -> Panel {
    let groups = report.groups.iter().map(|group| Group {
        label: group.case.name().to_owned(),
        values: Subject::ALL.map(|subject| value(group, subject)).to_vec(),
    });
    let groups: Vec<Group> = groups.collect();
    let values = groups
        .iter()
        .flat_map(|group| group.values.iter().copied().flatten());
    let scale = Scale::Linear(round_above(values.fold(1.0, f64::max)));
    Panel {
        title: title.to_owned(),
        scale,
        digits,
        groups,
    }
}

/// The next of 1, 2, 4, 8, 10, 20 and so on that is not less: four steps of it are whole or end
/// soon.
fn round_above(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 4.0, 8.0, 10.0]
        .map(|step| step * decade)
        .into_iter()
        .find(|step| *step >= value)
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::round_above;

    #[test]
    fn a_scale_ends_above_its_values() {
        let found = [1.0, 3.5, 12.0, 41_000.0]
            .map(round_above)
            .map(|value| format!("{value:.0}"));
        assert_eq!(found, ["1", "4", "20", "80000"]);
    }
}
