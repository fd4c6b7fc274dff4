//! The dashboard: what it is told, and what a real browser shows of it.

mod browser;
mod events;
mod picture;
mod viewer;

use std::collections::BTreeMap;

use testkit::reverse_proxy;

use crate::harness::Tollgate;

/// What a limit has said: allowed, denied, shadow denied.
type Said = [u64; 3];

/// What `/metrics` says that limits have said, over all sources.
fn counted(service: &Tollgate) -> BTreeMap<String, Said> {
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
        let said: &mut Said = counted.entry(label("limit").to_owned()).or_default();
        said[place.expect("an outcome that there is")] +=
            value.parse::<u64>().expect("a whole number");
    }
    counted
}
