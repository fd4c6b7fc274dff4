//! What a limiter costs an Express application: Express alone, behind Tollgate in its process and as
//! a client of the service, and behind the limiters that most applications use, all on Redis; and
//! what one call costs inside the process.

use crate::harness::prelude::*;

/// The cases of rows: applications over sockets, and calls in one process.
const APPLICATIONS: &str = "GET / of an Express application";
const CALLS: &str = "Calls in one process";
const LOAD: &str = "one hot key";
/// Connections of the load generator, each with one request in flight.
const CONNECTIONS: u32 = 16;
/// The directory of the Node package.
const PACKAGE: &str = "clients/node";

const EXPRESS: &str = "express alone";
const LEASED: &str = "tollgate in process, leased";
const HTTP_LEASED: &str = "tollgate over HTTP, leased";
const EXPRESS_RATE_LIMIT: &str = "express-rate-limit, Redis";
const RATE_LIMITER_FLEXIBLE: &str = "rate-limiter-flexible, Redis";
/// The applications: Express, and the limiter in front of its handler. First as `bench/app.mjs` of
/// the package names them, then as they are called in tables.
const SUBJECTS: [(&str, &str); 8] = [
    ("express", EXPRESS),
    ("memory", "tollgate in process, memory"),
    ("leased", LEASED),
    ("strict", "tollgate in process, strict"),
    ("http-leased", HTTP_LEASED),
    ("http-strict", "tollgate over HTTP, strict"),
    ("express-rate-limit", EXPRESS_RATE_LIMIT),
    ("rate-limiter-flexible", RATE_LIMITER_FLEXIBLE),
];

/// Nanoseconds per call.
const NS: &str = "ns";
/// What is called in the process of Node, as `bench/calls.mjs` of the package names it.
const TRY_CHECK: &str = "tryCheck, memory";
const CALLED: [&str; 5] = [
    TRY_CHECK,
    "check, memory",
    "check of two limits, memory",
    "rate-limiter-flexible, memory",
    "express-rate-limit's store, memory",
];
/// A synchronous call takes less than a microsecond.
const CALL_NS_MAX: f64 = 1_000.0;

/// Measures, prints the tables and writes the numbers and the picture.
pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
    let tollgate = arguments.tollgate()?;
    let package = Path::new(PACKAGE).canonicalize().unwrap_or_default();
    ensure!(
        package.join("dist/esm/index.js").is_file(),
        "the Node package is not built; \
         run `npm ci`, `npm run build` and `npm run build:native` in {PACKAGE}"
    );

    let mut bench = Bench::new(arguments, [(3, 1_000), (11, 3_000)]);
    let h2load = H2load::find();
    let node = format!("Node {}", program_version("node")?);
    bench.uses(vec![h2load.version()?, node]);

    if bench.begins("applications") {
        let servers = SUBJECTS.map(|(word, name)| start(word, name, &package, &tollgate));
        let servers: Vec<ServerUnderLoad> = servers.into_iter().collect::<Result<_>>()?;
        h2load.measure(&mut bench, APPLICATIONS, LOAD, &servers)?;
    }
    if bench.begins("calls") {
        let program = &package.join("bench/calls.mjs");
        let entrants = CALLED.map(|called| {
            Entrant::new(called, LOAD, move |length| {
                let mut command = Command::new("node");
                command.arg(program).arg(called);
                command.arg(length.as_millis().to_string());
                let ns = run_program(&mut command, |text| text.trim().parse::<f64>().ok())?;
                Ok(Figures::from([(NS, ns)]))
            })
        });
        bench.measure(CALLS, &[], entrants.into())?;
    }
    bench.publish("node", complete).map(drop)
}

/// Starts an application with the servers it needs, and waits until it responds.
fn start(word: &str, name: &str, package: &Path, tollgate: &Path) -> Result<ServerUnderLoad> {
    let is_local = ["express", "memory"].contains(&word);
    let redis = (!is_local).then(|| Server::start(Flavor::Redis));

    let mut command = Command::new("node");
    command.arg(package.join("bench/app.mjs")).arg(word);
    command.env("NODE_ENV", "production");
    if let Some(redis) = &redis {
        command.env("REDIS_URL", redis.url());
    }
    let mut beside = None;
    if let (Some(consistency), Some(redis)) = (word.strip_prefix("http-"), &redis) {
        let mut service = start_service(tollgate, &redis.url(), consistency)?;
        let address = service.announced("http")?;
        command.env("TOLLGATE_URL", format!("http://{address}"));
        beside = Some(service);
    }

    Ok(ServerUnderLoad {
        beside,
        redis,
        ..ServerUnderLoad::start(name, command, CONNECTIONS, 200)?
    })
}

/// Starts the service with a limit that never runs out.
fn start_service(tollgate: &Path, redis: &str, consistency: &str) -> Result<Process> {
    let config = format!(
        "store: {{ type: redis, endpoints: [\"{redis}\"], timeout: 1s }}\n\
         limits:\n  - {{ name: api, key: [key], algorithm: token_bucket, capacity: 1000000, \
         refill_rate: 1000000/s, consistency: {consistency}, on_store_failure: deny }}\n"
    );
    Process::serve(tollgate, &config, |_| ())
}

/// Adds the ratios, the tables and the picture: all applications relative to Express alone, and
/// leased limits to the other limiters.
fn complete(report: &mut Report) {
    let limited = SUBJECTS[1..].iter().map(|(_, name)| (*name, EXPRESS));
    let others = [EXPRESS_RATE_LIMIT, RATE_LIMITER_FLEXIBLE];
    for (ours, theirs) in limited.chain(others.map(|other| (LEASED, other))) {
        let goal = match (ours, theirs) {
            (LEASED, EXPRESS) => Some(Goal::AtLeast(0.93)),
            (LEASED, _) => Some(Goal::AtLeast(1.25)),
            (HTTP_LEASED, _) => Some(Goal::AtLeast(0.70)),
            _ => None,
        };
        let pair = [(LOAD, ours), (LOAD, theirs)];
        report.compare(RatioOf::Rounds, REQUESTS, APPLICATIONS, pair, goal);
    }

    let applications = load_table(APPLICATIONS, report.case(APPLICATIONS), &[]);
    report.tables = vec![applications, calls(report)];
    report.notes = include_str!("notes.txt");
    report.draw(
        "An Express application, and what a rate limit costs it",
        &[
            ("Requests per second: taller is better", REQUESTS),
            (
                "Microseconds of a core per request, in the application: shorter is better",
                CPU,
            ),
            ("Nanoseconds of a call: shorter is better", NS),
        ],
    );
}

fn calls(report: &Report) -> Table {
    let heads = ["subject", "ns/call", "fastest..slowest", "asked"];
    Table::new(CALLS, heads).with_lines(report.case(CALLS), |row| {
        let asked = match row.median(NS) < CALL_NS_MAX {
            _ if row.subject != TRY_CHECK => "",
            true => "under 1,000: reached",
            false => "under 1,000: missed",
        };
        vec![
            row.text("{subject}"),
            row.text("{ns:0}"),
            row.text("{ns:..0}"),
            asked.to_owned(),
        ]
    })
}
