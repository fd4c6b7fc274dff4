//! The simulation itself: the same plan gives the same run.

use tollgate::Consistency;

use super::{Plan, run};

#[test]
fn a_seed_repeats_its_run() {
    for seed in 0..20 {
        let plan = Plan::drawn(seed, Consistency::Leased);
        let [one, other] = [0, 1].map(|_| run(&plan, true).history);
        assert_eq!(one, other, "seed {seed}");
    }
}
