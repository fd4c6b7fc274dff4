use super::*;

/// A report of three rounds on an example machine.
pub(crate) fn test_report(programs: &[&str], length_ms: u64, rows: Vec<Row>) -> Report {
    Report {
        machine: Machine {
            cores: 2,
            cpu: "Example 9000".to_owned(),
        },
        programs: programs.iter().map(ToString::to_string).collect(),
        rows,
        ..Report::new(3, Duration::from_millis(length_ms))
    }
}

#[test]
fn a_busy_machine_is_reported() {
    let mut report = test_report(&["Redis 7"], 250, Vec::new());
    report.notes = "- A note\n  in two lines.\n- Another.\n";
    report.remarks = vec!["x was not measured".to_owned()];
    let expected = "Example 9000, 2 cores, Redis 7\n3 rounds of 250 ms, medians\n\n\
                    - x was not measured.\n- A note in two lines.\n- Another.\n";
    assert_eq!(report.to_string(), expected);

    (report.others, report.waited) = (0.2, 0.1);
    let shown = report.to_string();
    for line in [
        "BUSY MACHINE: other programs took 20 % of it. Do not quote these numbers.",
        "BUSY MACHINE: threads waited 10 % of their time for a core. \
         Do not quote these numbers.",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{shown}");
    }
}

#[test]
fn the_model_is_read_from_cpuinfo() {
    let cpuinfo = "processor\t: 0\nmodel\t\t: 1\nmodel name\t: Example 9000\nstepping\t: 1\n";
    assert_eq!(model_name(cpuinfo), Some("Example 9000"));
    assert_eq!(model_name(""), None);
}
