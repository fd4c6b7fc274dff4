//! Runs the examples of this crate.

#[path = "../examples/select_limits.rs"]
mod select_limits;

#[test]
fn select_limits_runs() {
    select_limits::main().expect("the example succeeds");
}
