//! Audits a short log of admissions and prints the worst interval.
//!
//! Run it with `cargo run -p tollgate-audit --example worst_interval`.

use tollgate::Micros;
use tollgate_audit::{Bound, Event, OverAdmission};

fn main() {
    println!("{}", report());
}

fn report() -> String {
    // A burst of 3, plus 1 unit per second.
    let bound = Bound::Rate {
        burst: 3,
        per: 1,
        period_micros: 1_000_000,
    };

    // Five units within 500 ms are too many for bob.
    let admissions = [
        (0, "ann"),
        (100, "bob"),
        (200, "bob"),
        (300, "bob"),
        (400, "ann"),
        (500, "bob"),
        (600, "bob"),
    ];
    let log = admissions.map(|(millis, key)| Event {
        at: Micros::from_millis(millis),
        key,
        cost: 1,
        allowed: true,
    });

    match OverAdmission::from_log(bound, log).worst() {
        Some(worst) if worst.excess.is_over() => format!("exceeded: {worst}"),
        Some(worst) => format!("held: {worst}"),
        None => "nothing was admitted".to_owned(),
    }
}

#[test]
fn bob_exceeds_the_limit() {
    // In 0.5 s the bound allows 3.5 units.
    assert!(report().starts_with("exceeded: \"bob\" was admitted 5"));
}
