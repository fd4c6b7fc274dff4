//! What other programs took of the machine meanwhile.
//!
//! Waiting for a core says nothing here: server and clients have more threads than a small machine
//! has cores, and wait for each other. So the time of all cores is compared with the time of the
//! processes that belong to the run.

use std::fs;

/// Ticks since the machine began, of all cores together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Whether somebody used them or not.
    all: u64,
    /// Spent by programs, of this system or, where it is itself a guest, of others. What the system
    /// does for all of them, such as moving packets, belongs to nobody.
    spent: u64,
    /// Spent by this process, by the children it has waited for, and by the servers.
    ours: u64,
}

impl Usage {
    /// Now; `None` where the system does not tell.
    pub(crate) fn read(servers: &[u32]) -> Option<Self> {
        let (all, spent) = machine(&fs::read_to_string("/proc/stat").ok()?)?;
        let itself = process(&fs::read_to_string("/proc/self/stat").ok()?)?;
        let servers = servers
            .iter()
            .map(|pid| ticks_of(*pid))
            .sum::<Option<u64>>()?;
        Some(Self {
            all,
            spent,
            ours: itself + servers,
        })
    }

    /// Which part of the machine others have taken since `before`.
    pub(crate) fn others_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let spent = self.spent.saturating_sub(before.spent);
        let others = spent.saturating_sub(self.ours.saturating_sub(before.ours));
        if all == 0 {
            0.0
        } else {
            float(others) / float(all)
        }
    }
}

/// The ticks that a process has spent so far, with the children it has waited for.
pub(crate) fn ticks_of(pid: u32) -> Option<u64> {
    process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// All ticks, and those spent: the line of all cores is user, nice, system, idle, iowait, irq,
/// softirq, steal and some that are counted twice.
fn machine(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Option<Vec<u64>> = line
        .split_ascii_whitespace()
        .take(8)
        .map(|tick| tick.parse().ok())
        .collect();
    match ticks?[..] {
        [user, nice, system, idle, iowait, irq, softirq, steal] => {
            let spent = user + nice + system + steal;
            Some((spent + idle + iowait + irq + softirq, spent))
        }
        _ => None,
    }
}

/// The ticks of a process and of the children it has waited for: fields 14 to 17. The second is its
/// name, in brackets, and may hold anything.
fn process(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: Option<Vec<u64>> = fields
        .split_ascii_whitespace()
        .skip(11)
        .take(4)
        .map(|tick| tick.parse().ok())
        .collect();
    ticks
        .filter(|ticks| ticks.len() == 4)
        .map(|ticks| ticks.iter().sum())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "no machine has run for 2^53 ticks"
)]
fn float(ticks: u64) -> f64 {
    ticks as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_by_position() {
        let stat = "cpu  100 20 30 400 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(machine(stat), Some((576, 158)));
        assert_eq!(machine("cpu  1 2 3\n"), None);
        let stat = "7 (a ) b) R 1 1 1 0 -1 4194304 95 0 0 0 11 22 33 44 20 0 1 0";
        assert_eq!(process(stat), Some(110));
        assert_eq!(process("7 (a) R 1"), None);
    }

    #[test]
    fn what_is_ours_is_not_the_others() {
        let before = Usage {
            all: 1_000,
            spent: 500,
            ours: 100,
        };
        let after = Usage {
            all: 1_200,
            spent: 650,
            ours: 230,
        };
        assert!((after.others_since(before) - 0.1).abs() < 1e-9);
        assert!(after.others_since(after).abs() < 1e-9);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_tells() {
        let usage = Usage::read(&[std::process::id()]).unwrap();
        assert!(usage.all >= usage.spent && usage.spent > 0, "{usage:?}");
    }
}
