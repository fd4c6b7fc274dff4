use super::*;

fn cargo(argument: &str) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.arg(argument);
    command
}

#[test]
fn every_step_runs_and_the_failed_ones_are_named() {
    let plan = Plan {
        steps: vec![
            Step::new("bad", cargo("--no-such-option")),
            Step::skipped("away", "not installed"),
            Step::failed("gone", "cannot be installed"),
            Step::new("good", cargo("--version")),
        ],
        closing: Some(Step::new("last", cargo("--no-such-option"))),
    };
    let Err(Error::Steps { names }) = all(plan) else {
        panic!("a failed step was not reported")
    };
    assert_eq!(names, ["bad", "gone", "last"]);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let error = alone(Command::new("no-such-program-anywhere")).unwrap_err();
    assert!(
        matches!(&error, Error::Start { command, .. } if command == "no-such-program-anywhere"),
        "{error:?}"
    );
}

#[test]
fn a_silent_command_passes_its_last_words_on() {
    let error = output(cargo("--no-such-option")).unwrap_err().to_string();
    assert!(
        error.contains("--no-such-option` ended with exit"),
        "{error}"
    );
    assert!(error.contains('('), "the reason is missing: {error}");
}

#[test]
fn the_table_shows_what_was_not_run() {
    let reports = [
        Report {
            name: "clippy".into(),
            outcome: Outcome::Passed,
            seconds: 12.34,
        },
        Report {
            name: "fmt".into(),
            outcome: Outcome::Failed,
            seconds: 0.5,
        },
        Report {
            name: "typos".into(),
            outcome: Outcome::Skipped("no python3".into()),
            seconds: 0.0,
        },
    ];
    let expected = "\
step    result   seconds
clippy  passed      12.3
fmt     FAILED       0.5
typos   skipped        -
total               12.8
warning: typos skipped: no python3
";
    assert_eq!(table(&reports), expected);
}
