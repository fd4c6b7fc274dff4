//! `docs/cli.md` shows the real output of the commands that need no service.

use super::page::{self, PAGE};
use super::{text, tollgate};

/// The page uses a short name for this file.
const SHORT: &str = "wrong.yaml";
const WRONG: &str = "crates/server/tests/cli/data/wrong.yaml";

#[test]
fn the_page_shows_the_real_output() {
    let mut compared = 0;
    for example in page::examples() {
        if !matches!(example.arguments[0], "validate" | "explain") {
            continue;
        }
        let arguments: Vec<&str> = example
            .arguments
            .iter()
            .map(|word| if *word == SHORT { WRONG } else { word })
            .collect();
        let output = tollgate(&arguments);
        let printed =
            format!("{}{}", text(&output.stdout), text(&output.stderr)).replace(WRONG, SHORT);
        assert_eq!(printed, example.printed, "{:?}", example.arguments);
        if let Some(code) = example.code {
            assert_eq!(output.status.code(), Some(code), "{:?}", example.arguments);
        }
        compared += 1;
    }
    assert!(compared >= 4, "{compared}");
}

#[test]
fn the_page_lists_every_command_and_exit_code() {
    let help = tollgate(&["--help"]);
    let help = text(&help.stdout);
    let commands = help
        .split("Commands:\n")
        .nth(1)
        .and_then(|rest| rest.split("\n\n").next())
        .unwrap();
    for command in commands
        .lines()
        .filter_map(|line| line.split_whitespace().next())
    {
        assert!(
            command == "help" || PAGE.contains(&format!("`tollgate {command}")),
            "{command}"
        );
    }
    for line in help
        .split("Exit codes:\n")
        .nth(1)
        .unwrap()
        .lines()
        .take_while(|line| !line.is_empty())
    {
        let (code, meaning) = line.trim().split_once("  ").unwrap();
        assert!(PAGE.contains(&format!("| {code} | {meaning} |")), "{line}");
    }
}
