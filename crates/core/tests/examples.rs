//! Runs the examples. They assert what they print.

#[path = "../examples/quickstart.rs"]
mod quickstart;

#[test]
fn quickstart_runs() {
    quickstart::main().expect("the example has valid limits and keys");
}
