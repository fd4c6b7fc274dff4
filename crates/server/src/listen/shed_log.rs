//! Logs when a port starts to shed load, and when it has stopped.

use super::load::PortLoad;

/// Shedding has ended after this many checks without a rejection.
const QUIET_CHECKS: u32 = 5;

/// Logs two lines for each period in which a port sheds load, however many requests it rejects.
#[derive(Debug, Default)]
pub(super) struct ShedLog {
    /// The number of rejections at the last check.
    last: u64,
    period: Option<ShedPeriod>,
}

/// A period in which a port sheds load.
#[derive(Clone, Copy, Debug)]
struct ShedPeriod {
    /// The number of rejections before it began.
    before: u64,
    /// Checks since the last rejection.
    quiet_checks: u32,
}

/// A change worth a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShedChange {
    Started,
    /// Ended, after this many rejections.
    Ended(u64),
}

impl ShedLog {
    /// Checks the port; called once a second.
    pub(super) fn update(&mut self, load: &PortLoad) {
        let port = load.name;
        match self.observe(load.shed()) {
            Some(ShedChange::Started) => tracing::warn!(
                port,
                connections = load.connections(),
                in_flight = load.in_flight(),
                "overloaded: rejecting requests"
            ),
            Some(ShedChange::Ended(rejected)) => {
                tracing::info!(port, rejected, "no longer overloaded");
            }
            None => {}
        }
    }

    fn observe(&mut self, shed: u64) -> Option<ShedChange> {
        let before = std::mem::replace(&mut self.last, shed);
        let is_quiet = shed == before;

        match &mut self.period {
            None if is_quiet => None,
            None => {
                self.period = Some(ShedPeriod {
                    before,
                    quiet_checks: 0,
                });
                Some(ShedChange::Started)
            }
            Some(period) if is_quiet && period.quiet_checks + 1 >= QUIET_CHECKS => {
                let rejected = shed - period.before;
                self.period = None;
                Some(ShedChange::Ended(rejected))
            }
            Some(period) => {
                period.quiet_checks = if is_quiet { period.quiet_checks + 1 } else { 0 };
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_period_is_logged_when_it_starts_and_when_it_has_ended() {
        let mut log = ShedLog::default();
        let shed = [0, 3, 9, 9, 9, 9, 9, 10, 10, 10, 10, 10, 10, 10, 12];
        let changes: Vec<_> = shed.map(|shed| log.observe(shed)).into();

        let mut expected = vec![None; shed.len()];
        expected[1] = Some(ShedChange::Started);
        expected[12] = Some(ShedChange::Ended(10));
        expected[14] = Some(ShedChange::Started);
        assert_eq!(changes, expected);
    }
}
