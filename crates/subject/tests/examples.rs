//! Runs the examples of this crate.

#[path = "../examples/client_address.rs"]
mod client_address;

#[test]
fn client_address_runs() {
    client_address::main().expect("the example succeeds");
}
