//! Strict limits with real processes: eight of them check the same key.
//!
//! Each process prints its outcomes and their times on the server's clock. In the order of time,
//! the outcomes must be those of the model for a single caller: no process was allowed more than
//! one process alone would have been.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::differential::Kind;
use testkit::model::ModelStore;
use testkit::overadmission::{Bound, Event, OverAdmission};
use testkit::servers::Server;
use testkit::wait;
use tollgate::algorithm::KeyLock;
use tollgate::store::{Intent, SpendReply};
use tollgate::{
    Calendar, Concurrency, DemandBuf, FixedWindow, LeakyBucket, LeakyMode, Limit, LimitError,
    Micros, Outcome, PermitId, Quota, Rate, SlidingLog, SlidingWindow, Source, Store, TokenBucket,
    Verdict,
};
use tollgate_redis::{RedisBuilder, RedisStore};

use crate::common;

const PROCESSES: usize = 8;
/// Number of decisions of each process.
const DECISIONS: usize = 400;
const CALLERS: usize = 4;
const LIMIT: u64 = 60;
const WINDOW: Duration = Duration::from_millis(150);

/// Environment variables of a worker: the URL of the server and the algorithm.
const URL: &str = "TOLLGATE_TEST_WORKER_URL";
const KIND: &str = "TOLLGATE_TEST_WORKER_KIND";

fn quota(kind: Kind) -> Quota {
    fn built(quota: Result<impl Into<Quota>, LimitError>) -> Quota {
        quota.expect("the numbers are valid").into()
    }

    let rate = Rate::new(LIMIT, WINDOW);
    match kind {
        Kind::FixedFirstHit => built(FixedWindow::new(LIMIT, WINDOW)),
        Kind::FixedCalendar => built(FixedWindow::aligned(LIMIT, Calendar::Second)),
        Kind::SlidingWindow => built(SlidingWindow::new(LIMIT, WINDOW)),
        Kind::SlidingLog => built(SlidingLog::new(LIMIT, WINDOW)),
        Kind::TokenBucket => built(TokenBucket::new(LIMIT, rate)),
        Kind::LeakyMeter => built(LeakyBucket::new(LeakyMode::Meter, LIMIT, rate)),
        Kind::LeakyQueue => built(LeakyBucket::new(LeakyMode::Queue, LIMIT, rate)),
        Kind::Concurrency => built(Concurrency::new(5, Duration::from_mins(1))),
    }
}

fn demand(kind: Kind) -> DemandBuf {
    let rule = Limit::new("hot", quota(kind))
        .validate()
        .expect("the name is valid");
    DemandBuf::new(&rule, "everyone", 1).expect("the key is valid")
}

/// One outcome as a line: time, verdict, wait or retry time, remaining units, times until
/// it is full and until more is left.
fn line(spent: &SpendReply) -> String {
    let (outcome, _) = spent.outcomes()[0];
    let (verdict_name, micros) = match outcome.verdict {
        Verdict::Allow { wait } => ("allow", wait.get()),
        Verdict::Deny { retry_after } => ("deny", retry_after.get()),
        Verdict::Never => ("never", 0),
    };

    format!(
        "{} {verdict_name} {micros} {} {} {}",
        spent.at.get(),
        outcome.remaining,
        outcome.reset_after.get(),
        outcome.more_after.get()
    )
}

fn read_line(line: &str, limit: u64) -> Option<SpendReply> {
    let mut words = line.split(' ');
    let number = |text: Option<&str>| text?.parse().ok().map(Micros::new);
    let at = number(words.next())?;
    let verdict_name = words.next()?;
    let micros = number(words.next())?;

    let verdict = match verdict_name {
        "allow" => Verdict::Allow { wait: micros },
        "deny" => Verdict::Deny {
            retry_after: micros,
        },
        _ => return None,
    };

    let remaining = number(words.next())?.get();
    let outcome = Outcome {
        verdict,
        limit,
        remaining,
        reset_after: number(words.next())?,
        more_after: number(words.next())?,
        lock: KeyLock::NONE,
    };
    Some(SpendReply::new([outcome], Source::Store, at))
}

/// The program of one process.
#[test]
#[ignore = "a process that the other tests start"]
fn worker() {
    let (Ok(url), Ok(kind)) = (std::env::var(URL), std::env::var(KIND)) else {
        return;
    };
    let kind = Kind::ALL
        .iter()
        .copied()
        .find(|other| format!("{other:?}") == kind)
        .expect("a known kind");
    let runtime = common::runtime();
    let store = common::connected(
        &runtime,
        RedisBuilder::standalone(url).timeout(common::PATIENT),
    );
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let store = store.clone();
            runtime.spawn(async move {
                for turn in 0..DECISIONS / CALLERS {
                    let number =
                        u128::from(std::process::id()) << 64 | (caller << 32 | turn) as u128;
                    println!("{}", spend(&store, kind, PermitId::new(number)).await);
                }
            })
        })
        .collect();

    callers
        .into_iter()
        .for_each(|caller| runtime.block_on(caller).expect("no caller panics"));
}

async fn spend(store: &RedisStore, kind: Kind, permit_id: PermitId) -> String {
    let demand = demand(kind);
    let spent = store
        .spend(&[demand.as_demand()], Intent::Spend, permit_id)
        .await
        .expect("the server is available");

    if kind != Kind::Concurrency || !spent.outcomes()[0].0.verdict.is_allowed() {
        return line(&spent);
    }
    // The permit is certainly held until the time of a peek before its release.
    let peeked = store
        .spend(&[demand.as_demand()], Intent::Peek, permit_id)
        .await
        .expect("the server is available");
    assert!(
        store
            .release(&demand.as_demand(), permit_id)
            .await
            .expect("the server is available")
    );
    format!("{} until {}", line(&spent), peeked.at.get())
}

fn start_worker(server: &Server, kind: Kind) -> Child {
    let program = std::env::current_exe().expect("this program has a path");
    Command::new(program)
        .args(["strict::worker", "--exact", "--ignored", "--nocapture"])
        .env(URL, server.url())
        .env(KIND, format!("{kind:?}"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program starts again")
}

/// The outcomes of all processes.
fn lines(server: &Server, kind: Kind) -> Vec<String> {
    let mut workers: Vec<Child> = (0..PROCESSES).map(|_| start_worker(server, kind)).collect();
    let mut lines = Vec::new();

    for worker in &mut workers {
        let output = BufReader::new(worker.stdout.take().expect("it is piped"));
        lines.extend(output.lines().map(|line| line.expect("it is text")));
        assert!(worker.wait().expect("it ends").success());
    }
    lines.retain(|line| line.contains(" allow ") || line.contains(" deny "));
    assert_eq!(
        lines.len(),
        PROCESSES * DECISIONS,
        "every check is answered"
    );
    lines
}

/// Compares all outcomes with the model, one after the other.
fn is_strict(kind: Kind) {
    for flavor in common::FLAVORS {
        let server = Server::start(flavor);
        let demand = demand(kind);
        let lines = lines(&server, kind);

        let mut replies: Vec<SpendReply> = lines
            .iter()
            .map(|line| read_line(line, LIMIT).expect("an answer"))
            .collect();
        // Of outcomes at the same time the allowed ones come first, by decreasing remaining units.
        replies.sort_by_key(|spent| {
            let (outcome, _) = spent.outcomes()[0];
            (
                spent.at,
                !outcome.verdict.is_allowed(),
                std::cmp::Reverse(outcome.remaining),
            )
        });

        let mut model = ModelStore::default();
        for spent in &replies {
            let compared =
                model.confirm(&[demand.as_demand()], Intent::Spend, PermitId::NONE, spent);
            assert_eq!(compared, Ok(()), "{kind:?} on {flavor:?} at {:?}", spent.at);
        }

        let allowed = |spent: &SpendReply| spent.outcomes()[0].0.verdict.is_allowed();
        let allowed_count = replies.iter().filter(|spent| allowed(spent)).count();
        assert!(allowed_count >= 60, "only {allowed_count} were allowed");

        let bound = Bound::for_quota(demand.quota()).expect("only concurrency has no bound");
        let events = replies.iter().map(|spent| Event {
            at: spent.at,
            key: (),
            cost: 1,
            allowed: allowed(spent),
        });
        let worst = OverAdmission::from_log(bound, events)
            .worst()
            .expect("something was allowed");
        assert!(!worst.excess.is_over(), "{kind:?} on {flavor:?}: {worst:?}");

        println!(
            "{kind:?} on {flavor:?}: {allowed_count} of {} allowed, excess {}",
            replies.len(),
            worst.excess
        );
    }
}

macro_rules! strict {
    ($($name:ident => $kind:ident;)*) => {$(
        #[test]
        fn $name() {
            is_strict(Kind::$kind);
        }
    )*};
}

strict! {
    fixed_first_hit => FixedFirstHit;
    fixed_calendar => FixedCalendar;
    sliding_window => SlidingWindow;
    sliding_log => SlidingLog;
    token_bucket => TokenBucket;
    leaky_meter => LeakyMeter;
    leaky_queue => LeakyQueue;
}

/// At no time are more permits held than the limit.
#[test]
fn concurrency() {
    for flavor in common::FLAVORS {
        let server = Server::start(flavor);
        let mut edges: Vec<(u64, i32)> = Vec::new();
        for line in lines(&server, Kind::Concurrency) {
            if let Some((taken, until)) = line.split_once(" until ") {
                let from = taken.split(' ').next().and_then(|text| text.parse().ok());
                edges.push((from.expect("a time"), 1));
                edges.push((until.parse().expect("a time"), -1));
            }
        }

        edges.sort_unstable();
        let mut held = 0;
        let most = edges
            .iter()
            .map(|(_, change)| {
                held += change;
                held
            })
            .max()
            .expect("some permits were held");

        println!(
            "permits on {flavor:?}: {} grants, at most {most} held",
            edges.len() / 2
        );
        assert!((1..=5).contains(&most), "{most} permits held");
        wait::until_true(common::PATIENT, "all permits were released", || {
            let keys = server.keys();
            let is_record = |key: &Vec<u8>| key.windows(9).any(|part| part == b"{records}");
            keys.iter().all(is_record)
        });
    }
}
