use super::*;

#[test]
fn a_tool_that_is_there_is_used_as_it_is() {
    static CARGO: Tool =
        Tool { name: "cargo", check: &["cargo"], install: Install::ByHand { instruction: "none" } };
    let workspace = Workspace::read().unwrap();
    let command = CARGO.ensure(&workspace).unwrap().command(&["build"]);
    assert_eq!(run::command_line(&command), "cargo build");
}

#[test]
fn a_missing_tool_comes_with_the_way_to_get_it() {
    static ABSENT: Tool = Tool {
        name: "absent",
        check: &["no-such-program-anywhere"],
        install: Install::ByHand { instruction: "cargo install absent" },
    };
    let reason = ABSENT.ensure(&Workspace::read().unwrap()).unwrap_err();
    assert_eq!(reason, "absent is not installed; to have it: cargo install absent");
}
