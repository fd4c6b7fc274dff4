//! The dashboard: its event stream, and the page in a real browser.

mod browser;
mod events;
mod picture;
mod viewer;

use std::collections::BTreeMap;

use testkit::reverse_proxy;

use crate::harness::Tollgate;

/// The decisions of a limit: allowed, denied, shadow denied.
type Counts = [u64; 3];

/// The decisions of each limit according to `/metrics`, over all sources.
fn counted(service: &Tollgate) -> BTreeMap<String, Counts> {
    let page = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let mut counted = BTreeMap::new();
    for line in page
        .lines()
        .filter_map(|line| line.strip_prefix("tollgate_decisions_total{"))
    {
        let (labels, value) = line.split_once("} ").expect("labels and a value");
        let label = |name: &str| {
            let (_, rest) = labels
                .split_once(&format!("{name}=\""))
                .expect("every line has it");
            rest.split_once('"').expect("a closing quote").0
        };
        let place = ["allowed", "denied", "shadow_denied"]
            .iter()
            .position(|name| *name == label("outcome"));
        let counts: &mut Counts = counted.entry(label("limit").to_owned()).or_default();
        counts[place.expect("a known outcome")] += value.parse::<u64>().expect("a whole number");
    }
    counted
}
