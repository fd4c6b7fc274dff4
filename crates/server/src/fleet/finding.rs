//! What the fleet as a whole tells an operator. A pure function of its replicas.

use std::collections::BTreeMap;

use serde::Serialize;

use super::heartbeat::Heartbeat;

/// The most replicas that a message names for each of their groups.
const NAMES_MAX: usize = 8;

/// Something to know about the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FleetFinding {
    pub(crate) kind: FindingKind,
    /// True when something should be done about it.
    pub(crate) is_warning: bool,
    /// For people; changes from version to version.
    pub(crate) message: String,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FindingKind {
    /// The memory store is not shared.
    MemoryStore,
    /// There is one replica, as expected.
    SingleReplica,
    /// There are more or fewer replicas than `expected_replicas`.
    ReplicaCount,
    /// Replicas have different configurations.
    ConfigurationsDiffer,
    /// Replicas have different versions.
    VersionsDiffer,
}

/// The findings about a fleet. `expected` is the configured number of replicas. Until all of them
/// have had the time to report, their number is no finding.
pub(super) fn find(
    replicas: &[Heartbeat],
    is_shared: bool,
    expected: u32,
    have_all_reported: bool,
) -> Vec<FleetFinding> {
    let finding = |kind, is_warning, message: String| FleetFinding {
        kind,
        is_warning,
        message,
    };
    if !is_shared {
        let message = "memory store: each replica counts alone, and only this one is shown";
        return vec![finding(FindingKind::MemoryStore, false, message.into())];
    }

    let seen = replicas.len();
    let mut findings = Vec::new();
    let is_expected = u32::try_from(seen) == Ok(expected);
    if !is_expected && have_all_reported {
        let replicas = match seen {
            1 => "replica uses",
            _ => "replicas use",
        };
        let message =
            format!("defaults.expected_replicas is {expected}, but {seen} {replicas} the store");
        findings.push(finding(FindingKind::ReplicaCount, true, message));
    } else if is_expected && seen == 1 {
        let message = "this is the only replica on the store".to_owned();
        findings.push(finding(FindingKind::SingleReplica, false, message));
    }

    let by_config = group(replicas, |replica| &replica.config);
    let by_version = group(replicas, |replica| &replica.version);
    for (kind, is_warning, noun, groups) in [
        (
            FindingKind::ConfigurationsDiffer,
            true,
            "configurations",
            by_config,
        ),
        (FindingKind::VersionsDiffer, false, "versions", by_version),
    ] {
        if groups.len() > 1 {
            let (count, groups) = (groups.len(), describe(&groups));
            let message = format!("{seen} replicas use {count} {noun}: {groups}");
            findings.push(finding(kind, is_warning, message));
        }
    }
    findings
}

/// The names of replicas by a property of theirs.
fn group(
    replicas: &[Heartbeat],
    property: impl Fn(&Heartbeat) -> &String,
) -> BTreeMap<&str, Vec<&str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for replica in replicas {
        let names = groups.entry(property(replica)).or_default();
        names.push(&replica.name);
    }
    groups
}

/// The groups as text, such as `1a2b (a, b), 3c4d (c)`.
fn describe(groups: &BTreeMap<&str, Vec<&str>>) -> String {
    let text = |(value, names): (&&str, &Vec<&str>)| {
        let shown = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>();
        let more = match names.len().saturating_sub(NAMES_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{value} ({}{more})", shown.join(", "))
    };
    let texts: Vec<String> = groups.iter().take(NAMES_MAX).map(text).collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(name: &str, config: &str) -> Heartbeat {
        Heartbeat {
            name: name.into(),
            config: config.into(),
            ..Heartbeat::default()
        }
    }

    fn kinds(replicas: &[Heartbeat], is_shared: bool, expected: u32) -> Vec<(FindingKind, bool)> {
        let findings = find(replicas, is_shared, expected, true).into_iter();
        findings.map(|one| (one.kind, one.is_warning)).collect()
    }

    #[test]
    fn a_fleet_as_expected_has_no_findings() {
        let fleet = [replica("a", "1"), replica("b", "1")];
        assert_eq!(kinds(&fleet, true, 2), []);
        let single = [(FindingKind::SingleReplica, false)];
        assert_eq!(kinds(&fleet[..1], true, 1), single);
        let memory = [(FindingKind::MemoryStore, false)];
        assert_eq!(kinds(&fleet[..1], false, 3), memory);
        assert_eq!(find(&fleet, true, 3, false), [], "not all have reported");
    }

    #[test]
    fn differences_name_the_replicas() {
        let mut fleet: Vec<_> = (0..10).map(|n| replica(&format!("r{n}"), "1a")).collect();
        fleet.push(replica("other", "2b"));
        let findings = find(&fleet, true, 3, true);
        let messages: Vec<&str> = findings.iter().map(|one| &*one.message).collect();
        assert_eq!(
            messages,
            [
                "defaults.expected_replicas is 3, but 11 replicas use the store",
                "11 replicas use 2 configurations: 1a (r0, r1, r2, r3, r4, r5, r6, r7 and 2 more), \
                 2b (other)",
            ]
        );

        fleet[0].version = "2".into();
        let last = find(&fleet, true, 11, true).pop().expect("two findings");
        assert_eq!(
            (last.kind, last.is_warning),
            (FindingKind::VersionsDiffer, false)
        );
    }
}
