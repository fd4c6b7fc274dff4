//! What the Sentinels report, and which server is the primary by that.

use std::collections::BTreeMap;

use crate::endpoint::Address;
use crate::error::ServerError;

/// The primary of a group, as a Sentinel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PrimaryReport {
    pub(super) address: Address,
    /// The configuration epoch, which grows with every fail-over. 0 if the Sentinel does not
    /// report it.
    pub(super) epoch: u64,
}

/// The last report of each Sentinel.
#[derive(Clone, Debug)]
pub(super) struct SentinelReports {
    /// `None` until the Sentinel has replied or failed for the first time.
    reports: Vec<Option<Result<PrimaryReport, ServerError>>>,
}

impl SentinelReports {
    pub(super) fn new(sentinels: usize) -> Self {
        Self {
            reports: vec![None; sentinels],
        }
    }

    /// Replaces the report of a Sentinel. Returns whether it has changed.
    pub(super) fn replace(
        &mut self,
        index: usize,
        report: Result<PrimaryReport, ServerError>,
    ) -> bool {
        let report = Some(report);
        let has_changed = self.reports[index] != report;
        self.reports[index] = report;
        has_changed
    }

    /// True when no further report is needed to choose a primary: most Sentinels agree, or all have
    /// replied or failed.
    pub(super) fn suffice(&self) -> bool {
        self.majority().is_some() || self.reports.iter().all(Option::is_some)
    }

    /// The primary to use after the one that was `used` until now. `None` if that one should be
    /// kept.
    ///
    /// It is the primary that most Sentinels report: a Sentinel that is isolated from the others
    /// may report a former one. Without a majority, it is that of the latest epoch. A primary of an
    /// earlier epoch than the one in use is a former one, unless most Sentinels report it and none
    /// reports the one in use.
    pub(super) fn primary_after(&self, used: Option<&PrimaryReport>) -> Option<PrimaryReport> {
        let majority = self.majority();
        let has_majority = majority.is_some();
        let primary = majority.or_else(|| self.latest(used))?;

        let is_former = used.is_some_and(|used| {
            let is_reported = self.replies().any(|report| report == used);
            primary.epoch < used.epoch && (is_reported || !has_majority)
        });
        (!is_former).then_some(primary)
    }

    /// Why there is no primary.
    pub(super) fn error(&self) -> ServerError {
        let errors = self.reports.iter().flatten();
        let mut errors = errors.filter_map(|report| report.as_ref().err());
        errors
            .next_back()
            .cloned()
            .unwrap_or_else(|| ServerError::new("no Sentinel has replied yet"))
    }

    fn replies(&self) -> impl Iterator<Item = &PrimaryReport> {
        let reports = self.reports.iter().flatten();
        reports.filter_map(|report| report.as_ref().ok())
    }

    /// The primary that more than half of the Sentinels report.
    fn majority(&self) -> Option<PrimaryReport> {
        let (address, votes) = self
            .votes()
            .into_iter()
            .max_by_key(|(_, votes)| votes.count)?;
        let has_majority = votes.count * 2 > self.reports.len();
        has_majority.then(|| votes.report_on(address))
    }

    /// The primary of the latest epoch. Of several, the one that most Sentinels report, or the one
    /// that is used.
    fn latest(&self, used: Option<&PrimaryReport>) -> Option<PrimaryReport> {
        let used = used.map(|used| &used.address);
        let latest = self
            .votes()
            .into_iter()
            .max_by_key(|(address, votes)| (votes.epoch, votes.count, Some(*address) == used));
        latest.map(|(address, votes)| votes.report_on(address))
    }

    fn votes(&self) -> BTreeMap<&Address, Votes> {
        let mut all: BTreeMap<&Address, Votes> = BTreeMap::new();
        for report in self.replies() {
            let votes = all.entry(&report.address).or_default();
            votes.count += 1;
            votes.epoch = votes.epoch.max(report.epoch);
        }
        all
    }
}

/// The Sentinels that report the same primary.
#[derive(Clone, Copy, Default)]
struct Votes {
    count: usize,
    /// The latest epoch that they report.
    epoch: u64,
}

impl Votes {
    fn report_on(self, address: &Address) -> PrimaryReport {
        PrimaryReport {
            address: address.clone(),
            epoch: self.epoch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(port: u16, epoch: u64) -> PrimaryReport {
        PrimaryReport {
            address: Address::new("127.0.0.1", port),
            epoch,
        }
    }

    /// Reports of three Sentinels: port and epoch, or `None` for one that is down.
    fn reports(all: [Option<(u16, u64)>; 3]) -> SentinelReports {
        let mut reports = SentinelReports::new(all.len());
        for (index, primary) in all.into_iter().enumerate() {
            let report = primary.map(|(port, epoch)| report(port, epoch));
            reports.replace(index, report.ok_or_else(|| ServerError::new("down")));
        }
        reports
    }

    /// The port of the primary to use after one on port 1.
    fn after(epoch: u64, all: [Option<(u16, u64)>; 3]) -> Option<u16> {
        let primary = reports(all).primary_after(Some(&report(1, epoch)));
        primary.map(|primary| primary.address.port)
    }

    #[test]
    fn a_majority_decides() {
        assert_eq!(
            after(5, [Some((2, 6)), Some((1, 5)), Some((1, 5))]),
            Some(1)
        );
        assert_eq!(
            after(5, [Some((2, 6)), Some((2, 6)), Some((1, 5))]),
            Some(2)
        );
        assert_eq!(after(5, [None, Some((2, 6)), Some((2, 6))]), Some(2));
    }

    #[test]
    fn without_a_majority_the_latest_epoch_decides() {
        assert_eq!(after(5, [Some((2, 6)), Some((1, 5)), None]), Some(2));
        assert_eq!(after(5, [Some((1, 5)), Some((2, 6)), None]), Some(2));
        assert_eq!(after(5, [None, None, Some((2, 6))]), Some(2));
        assert_eq!(after(0, [None, None, Some((2, 0))]), Some(2));
        assert_eq!(after(5, [Some((1, 5)), Some((2, 5)), None]), Some(1));
    }

    /// The one in use is on port 1, and of epoch 6.
    #[test]
    fn a_former_primary_is_not_used_again() {
        assert_eq!(after(6, [None, None, Some((2, 5))]), None);
        assert_eq!(after(6, [Some((1, 6)), Some((2, 5)), None]), Some(1));
        assert_eq!(after(6, [Some((1, 6)), Some((2, 5)), Some((2, 5))]), None);

        // The Sentinel that promoted the one in use has failed before the others heard of it.
        assert_eq!(after(6, [None, Some((2, 5)), Some((2, 5))]), Some(2));
    }

    #[test]
    fn the_used_primary_is_kept_without_sentinels() {
        assert_eq!(after(5, [None; 3]), None);
    }

    #[test]
    fn reports_suffice_with_a_majority_or_when_all_are_known() {
        let mut reports = SentinelReports::new(3);
        assert!(!reports.suffice());

        assert!(reports.replace(0, Ok(report(1, 5))));
        assert!(!reports.suffice());
        assert!(reports.replace(1, Ok(report(1, 5))));
        assert!(reports.suffice());
        assert!(!reports.replace(1, Ok(report(1, 5))));

        assert!(reports.replace(1, Ok(report(2, 6))));
        assert!(!reports.suffice());
        assert!(reports.replace(2, Err(ServerError::new("down"))));
        assert!(reports.suffice());
    }
}
