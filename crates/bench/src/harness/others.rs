//! The share of the machine that other programs used during a round.
//!
//! Time spent waiting for a core does not measure that here: the server and its clients have more
//! threads than a small machine has cores, and wait for each other. Instead, the CPU time of the
//! whole machine is compared with that of the processes that belong to the run.

use std::fs;

use super::row::float;

/// The length of a clock tick in the CPU times of `/proc`; it is the same on every Linux.
pub(crate) const TICK_NS: f64 = 1e7;

/// Clock ticks since boot, summed over all cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// All ticks, including idle ones.
    all: u64,
    /// Ticks used by programs of this system or, on a virtual machine, of other guests. Kernel work
    /// that serves all of them, such as packet handling, is not included.
    spent: u64,
    /// Ticks used by this process, by the children it has waited for, and by the servers.
    ours: u64,
}

impl Usage {
    /// Reads the current values; `None` where `/proc` does not have them.
    pub(crate) fn read(servers: &[u32]) -> Option<Self> {
        let (all, spent) = machine(&fs::read_to_string("/proc/stat").ok()?)?;
        let itself = process(&fs::read_to_string("/proc/self/stat").ok()?)?;
        let servers = servers.iter().map(|pid| ticks_of(*pid));
        let ours = itself + servers.sum::<Option<u64>>()?;
        Some(Self { all, spent, ours })
    }

    /// The share of the machine, from 0 to 1, that other programs have used since `before`; 0 if it
    /// is not known.
    pub(crate) fn share_since(before: Option<Self>, servers: &[u32]) -> f64 {
        before
            .zip(Self::read(servers))
            .map_or(0.0, |(before, now)| now.others_since(before))
    }

    /// The share of the machine, from 0 to 1, that other programs have used since `before`.
    pub(crate) fn others_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let spent = self.spent.saturating_sub(before.spent);
        let others = spent.saturating_sub(self.ours.saturating_sub(before.ours));
        // Not a number is less than zero here.
        (float(others) / float(all)).max(0.0)
    }
}

/// The ticks that a process and the children it has waited for have used so far.
fn ticks_of(pid: u32) -> Option<u64> {
    process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Counts the CPU time of a process from now on, and returns the microseconds for each of a number of
/// requests.
pub(crate) fn cpu_meter(pid: u32) -> impl Fn(u64) -> f64 {
    let ticks = move || ticks_of(pid).map_or(f64::NAN, float);
    let before = ticks();
    move |requests| (ticks() - before) * TICK_NS / 1e3 / float(requests)
}

/// All ticks and used ticks. The line of all cores has user, nice, system, idle, iowait, irq,
/// softirq, steal and some fields that are counted twice.
fn machine(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let [user, nice, system, idle, iowait, irq, softirq, steal] = numbers(line, 0)?;
    let spent = user + nice + system + steal;
    Some((spent + idle + iowait + irq + softirq, spent))
}

/// The ticks of the children of this process that have exited and were waited for.
pub(crate) fn children_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    fields(&stat).map_or(0, |[_, _, user, system]| user + system)
}

/// The ticks of a process and of the children it has waited for.
fn process(stat: &str) -> Option<u64> {
    fields(stat).map(|ticks| ticks.iter().sum())
}

/// Fields 14 to 17: the ticks of a process in user and system mode, and those of the children that
/// it has waited for. The second field is its name in parentheses, which may contain anything.
fn fields(stat: &str) -> Option<[u64; 4]> {
    let (_, fields) = stat.rsplit_once(')')?;
    numbers(fields, 11)
}

/// The numbers after this many words.
fn numbers<const COUNT: usize>(text: &str, skip: usize) -> Option<[u64; COUNT]> {
    let words = text.split_ascii_whitespace().skip(skip).take(COUNT);
    let numbers: Option<Vec<u64>> = words.map(|word| word.parse().ok()).collect();
    numbers?.try_into().ok()
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
        assert_eq!(fields(stat), Some([11, 22, 33, 44]));
        assert_eq!(process("7 (a) R 1"), None);
    }

    #[test]
    fn own_ticks_are_not_counted_as_others() {
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
    fn linux_has_the_values() {
        let usage = Usage::read(&[std::process::id()]).unwrap();
        assert!(usage.all >= usage.spent && usage.spent > 0, "{usage:?}");
    }
}
