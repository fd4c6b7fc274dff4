//! Limits on a shared server that are decided from memory: leased and eventual limits compared with
//! the embedded store, with strict limits and with the trypema crate, in speed and in accuracy.

mod subjects;

use self::subjects::{Hybrid, Subject, TollgateSubject, entrant, strict_entrant};
use crate::harness::prelude::*;
use std::sync::Arc;
use tollgate::store::lease::quantum;
use tollgate::{Consistency, Limit, Rate};

const MEMORY: &str = "memory";
const LEASED: &str = "leased";
const EVENTUAL: &str = "eventual";
const STRICT: &str = "strict";
const TRYPEMA: &str = "trypema-hybrid";

/// The name of the limit that is checked.
const LIMIT: &str = "api";
/// The key that all threads and tasks check.
const KEY: &str = "user-000000000042";
/// The number of callers with the highest throughput.
const CROWD: usize = 256;

/// The limit that two limiters share under a burst of twice the limit each.
const BURST_LIMIT: u32 = 1_000;
const REPLICAS: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// One hot key, always allowed.
    Hot,
    /// One key that has used up its budget.
    Denied,
}

impl Case {
    const ALL: [Self; 2] = [Self::Hot, Self::Denied];

    const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Denied => "denied",
        }
    }

    /// The units that a key may use at once: more than a run ever uses, or few.
    const fn budget(self) -> u32 {
        match self {
            Self::Hot => 1_000_000_000,
            Self::Denied => 10,
        }
    }

    /// A token bucket that never denies and is never full again, or one that is used up for the
    /// rest of the run.
    fn limit(self) -> Limit {
        let rate = Rate::new(3, Duration::from_secs(7));
        match self {
            Self::Hot => Limit::token_bucket(LIMIT, self.budget().into(), rate),
            Self::Denied => used_up(self.budget()),
        }
    }

    /// Whether the number of allowed checks is correct. An eventual limit may admit a few units of
    /// a used-up budget again; its bound says how many.
    const fn is_correct(self, allowed: u64, asked: u64) -> bool {
        match self {
            Self::Hot => allowed == asked,
            Self::Denied => allowed <= 1 || allowed * 1_000 <= asked,
        }
    }
}

/// A bucket that refills nothing while it is measured.
fn used_up(capacity: u32) -> Limit {
    Limit::token_bucket(
        LIMIT,
        capacity.into(),
        Rate::new(1, Duration::from_hours(24)),
    )
}

/// Measures, prints the tables and writes the numbers and the picture.
pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
    let mut bench = Bench::new(arguments, [(3, 60), (7, 250)]);
    let server = Arc::new(Server::start(Flavor::Redis));
    bench.uses(vec![store_version(&server)]);

    for case in Case::ALL {
        if bench.begins(case.name()) {
            let entrants = entrants(&server, case)?;
            let rows = bench.measure(case.name(), &[server.pid()], entrants)?;
            for row in rows.iter_mut().filter(|row| row.subject == STRICT) {
                row.add(Figures::from([("local", 0.0), ("waited", 0.0)]));
            }
        }
    }
    if bench.begins("two limiters that share a limit") {
        for name in [STRICT, LEASED, EVENTUAL, TRYPEMA] {
            let row = bursts(name, bench.rounds, &server)?;
            bench.report.rows.push(row);
        }
    }
    bench.publish("leases", complete).map(drop)
}

/// All subjects of a case, on one server, each with its own counters.
fn entrants(server: &Arc<Server>, case: Case) -> Result<Vec<Entrant<'static>>> {
    let mut entrants = Vec::new();
    for threads in [1, 2] {
        for name in [MEMORY, LEASED, EVENTUAL, TRYPEMA] {
            let prefix = format!("{name}-{}-{threads}", case.name());
            let subject = connect(name, server, &prefix, case.limit(), case.budget(), 1)?;
            entrants.push(entrant(name, subject, case, threads)?);
        }
    }
    for callers in [1, CROWD] {
        let prefix = format!("{STRICT}-{}-{callers}", case.name());
        entrants.push(strict_entrant(&server.url(), &prefix, case, callers)?);
    }
    Ok(entrants)
}

/// Creates a subject with its own runtime, so that the tasks of subjects do not affect each other.
/// `budget` is the number of units that the limit allows at once.
fn connect(
    name: &str,
    server: &Arc<Server>,
    prefix: &str,
    limit: Limit,
    budget: u32,
    replicas: u32,
) -> Result<Box<dyn Subject>> {
    let consistency = match name {
        MEMORY => return Ok(Box::new(TollgateSubject::in_memory(limit)?)),
        TRYPEMA => return Ok(Box::new(Hybrid::connect(server, prefix, budget)?)),
        LEASED => Consistency::Leased,
        EVENTUAL => Consistency::Eventual,
        _ => Consistency::Strict,
    };
    let (url, limit) = (server.url(), limit.consistency(consistency));
    let subject = TollgateSubject::connect(&url, prefix, limit, replicas)?;
    Ok(Box::new(subject))
}

/// Accuracy, without which speed is worthless: two limiters that share a limit, each under a burst
/// of twice the limit.
fn bursts(name: &str, runs: usize, server: &Arc<Server>) -> Result<Row> {
    let (prefix, limit) = (format!("burst-{name}"), BURST_LIMIT);
    let connect = || connect(name, server, &prefix, used_up(limit), limit, REPLICAS);
    let both = [connect()?, connect()?];
    let runs = (0..runs).map(|run| burst(&both, &format!("run-{run}")));
    let mut row = Row::new(BURST, "2 limiters", name, runs.collect::<Result<_>>()?);
    let bound = bound(name).map(|bound| ("bound", float(bound)));
    row.add(bound.into_iter().collect());
    Ok(row)
}

/// The most that a subject claims to admit.
fn bound(subject: &str) -> Option<u64> {
    let limit = u64::from(BURST_LIMIT);
    match subject {
        STRICT | LEASED => Some(limit),
        EVENTUAL => Some(limit + u64::from(REPLICAS) * quantum(limit, REPLICAS)),
        _ => None,
    }
}

/// How many requests two limiters admit together.
fn burst(both: &[Box<dyn Subject>; 2], key: &str) -> Result<Figures> {
    let (admitted, _) = together(both.len(), |index| {
        let decisions = (0..2 * BURST_LIMIT).map(|_| both[index].ask(key));
        let admitted = decisions.map(|is_allowed| Ok(u64::from(is_allowed?)));
        admitted.sum::<Result<u64>>()
    });
    let admitted = admitted.into_iter().sum::<Result<u64>>()?;
    Ok(Figures::from([("admitted", float(admitted))]))
}

/// The case of rows about accuracy.
const BURST: &str = "burst";

/// Adds the ratios, the tables and the picture.
fn complete(report: &mut Report) {
    let waited = report.rows.iter().map(|row| row.median("waited"));
    report.waited = waited.fold(0.0, f64::max);
    compare(report);

    report.tables = Case::ALL.map(|case| numbers(report, case)).into();
    if report.case(BURST).next().is_some() {
        report.tables.push(burst_table(report));
    }
    report.notes = include_str!("notes.txt");
    let panel = ("Nanoseconds per decision: shorter is better", NS);
    report.draw("Nanoseconds per decision on a hot key", &[panel]);
}

/// Leased limits relative to others. Strict limits are fastest with many callers, whose decisions
/// share round trips.
fn compare(report: &mut Report) {
    let crowd = counted(CROWD, "caller");
    let loads = ["1 thread", "2 threads"];
    for (to, load, goal) in [(MEMORY, None, 0.5), (STRICT, Some(crowd.as_str()), 20.0)] {
        for ours in loads {
            let pair = [(ours, LEASED), (load.unwrap_or(ours), to)];
            let goal = Some(Goal::AtLeast(goal));
            report.compare(RatioOf::Medians, RATE, Case::Hot.name(), pair, goal);
        }
    }
}

fn numbers(report: &Report, case: Case) -> Table {
    let heads = [
        "subject",
        "load",
        "ns/decision",
        "fastest..slowest",
        "to memory",
        "local",
        "calls/decision",
    ];
    let title = format!("One key, {}", case.name());
    Table::new(title, heads).with_lines(report.case(case.name()), |row| {
        let memory = report.row(&row.case, &row.load, MEMORY);
        let to_memory = memory.map(|memory| row.median(RATE) / memory.median(RATE));
        vec![
            row.text("{subject}"),
            row.text("{load}"),
            row.text("{ns_per_decision:1}"),
            row.text("{ns_per_decision:..1}"),
            or_dash(to_memory.map(|ratio| format!("{ratio:.2}x"))),
            row.text("{local:%4}"),
            row.text("{calls_per_decision:7}"),
        ]
    })
}

fn burst_table(report: &Report) -> Table {
    let title = "Two limiters that share a limit, under a burst of four times the limit";
    let heads = ["subject", "limit", "bound", "admitted in each run"];
    Table::new(title, heads).with_lines(report.case(BURST), |row| {
        let bound = row.median("bound");
        let is_exceeded = row.spread("admitted").max > bound;
        let mark = if is_exceeded { "EXCEEDED " } else { "" };
        let runs = row.rounds.iter().map(|run| run["admitted"].to_string());
        vec![
            row.subject.clone(),
            BURST_LIMIT.to_string(),
            row.text("{bound:0}"),
            format!("{mark}{}", runs.collect::<Vec<_>>().join(" ")),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eventual_limits_may_exceed_by_a_quantum_for_each_replica() {
        assert_eq!(
            [STRICT, LEASED, EVENTUAL, TRYPEMA].map(bound),
            [Some(1_000), Some(1_000), Some(1_100), None]
        );
    }

    fn row(case: Case, subject: &str, load: &str, rates: [f64; 3]) -> Row {
        let round = |rate| {
            Figures::from([
                (NS, 1e9 / rate),
                (RATE, rate),
                ("local", 1.0),
                (CALLS, 0.000_002),
                ("waited", 0.1),
            ])
        };
        Row::new(case.name(), load, subject, rates.map(round).to_vec())
    }

    #[test]
    fn the_table_shows_what_was_missed_and_what_was_broken() {
        let row = |subject, ns: f64| {
            let rates = [ns, ns * 2.0, ns * 0.5].map(|ns| 1e9 / ns);
            row(Case::Hot, subject, "1 thread", rates)
        };
        let burst = |subject, bound: Option<f64>, admitted: [f64; 2]| {
            let rounds = admitted.map(|admitted| Figures::from([("admitted", admitted)]));
            let mut row = Row::new(BURST, "2 limiters", subject, rounds.to_vec());
            row.add(bound.map(|bound| ("bound", bound)).into_iter().collect());
            row
        };
        let rows = vec![
            row(MEMORY, 40.0),
            row(LEASED, 100.0),
            burst(STRICT, Some(1_000.0), [1_000.0, 999.0]),
            burst(LEASED, Some(1_000.0), [1_000.0, 1_001.0]),
            burst(TRYPEMA, None, [2_000.0, 2_000.0]),
        ];
        let expected = "\
Example 9000, 2 cores, Redis 7
3 rounds of 250 ms, medians
BUSY MACHINE: threads waited 10 % of their time for a core. Do not quote these numbers.

One key, hot

subject      load  ns/decision  fastest..slowest  to memory       local  calls/decision
memory   1 thread         40.0        20.0..80.0      1.00x  100.0000 %       0.0000020
leased   1 thread        100.0       50.0..200.0      0.40x  100.0000 %       0.0000020

One key, denied

subject  load  ns/decision  fastest..slowest  to memory  local  calls/decision

Two limiters that share a limit, under a burst of four times the limit

subject         limit  bound  admitted in each run
strict           1000   1000              1000 999
leased           1000   1000    EXCEEDED 1000 1001
trypema-hybrid   1000      -             2000 2000

Relative to other subjects (lowest and highest round)

            to  case      load           figure                       ratio        target
leased  memory   hot  1 thread  decisions_per_s  MISSED 0.400x (0.40..0.40)  0.5x or more

";
        let mut report = test_report(&["Redis 7"], 250, rows);
        complete(&mut report);
        let shown = report.to_string();
        assert_eq!(shown.split_once("- memory,").unwrap().0, expected);
    }

    #[test]
    fn only_comparable_rows_are_compared() {
        let (one, two) = ("1 thread", "2 threads");
        let rows = vec![
            row(Case::Hot, MEMORY, one, [200.0, 200.0, 400.0]),
            row(Case::Hot, LEASED, one, [100.0, 120.0, 80.0]),
            row(Case::Hot, LEASED, two, [90.0, 90.0, 90.0]),
            row(Case::Hot, STRICT, "1 caller", [1.0, 1.0, 1.0]),
            row(Case::Hot, STRICT, "256 callers", [4.0, 5.0, 6.0]),
            row(Case::Denied, MEMORY, two, [90.0, 90.0, 90.0]),
        ];
        let mut report = test_report(&[], 250, rows);
        compare(&mut report);
        let ratios = &report.ratios;
        let found: Vec<_> = ratios
            .iter()
            .map(|ratio| (&*ratio.theirs, &*ratio.load, ratio.is_missed))
            .collect();
        assert_eq!(
            found,
            [
                (MEMORY, one, false),
                (STRICT, one, false),
                (STRICT, two, true)
            ]
        );
        assert!((ratios[0].value - 0.5).abs() < 1e-9, "{:?}", ratios[0]);
    }

    #[test]
    fn what_was_not_measured_has_no_ratio() {
        let mut report = test_report(&[], 250, Vec::new());
        compare(&mut report);
        assert_eq!(report.ratios, []);
    }
}
