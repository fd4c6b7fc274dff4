use std::fs;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicU32;

use serde_json::Value;
use tollgate::ManualClock;
use tollgate::store::Intent;
use tollgate_gate::{CheckOptions, Gate, RequestOrigin};
use tollgate_rules::Config;

use super::*;

/// A gate whose only limit denies every second request of a key, and its audit log.
struct AuditedGate {
    gate: Gate,
    clock: ManualClock,
    audit_log: Arc<AuditLog>,
    folder: PathBuf,
}

impl AuditedGate {
    /// `FILE` in the settings is a new path.
    fn new(settings: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("tollgate-audit-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a writable directory");
        Self::in_folder(settings, folder)
    }

    fn in_folder(settings: &str, folder: PathBuf) -> Self {
        let file = folder.join("denials.jsonl");
        let settings = settings.replace("FILE", &file.display().to_string());
        let text = format!(
            "audit_log: {settings}\n\
             hash_keys: [email]\n\
             hash_secret: correct-horse-battery-staple\n\
             limits: [{{ name: api, key: [user, email], algorithm: sliding_log, limit: 1, \
             window: 1h }}]"
        );
        let config = Config::parse(&text, "t.yaml", &|_| None).expect("a valid configuration");

        let clock = ManualClock::new(tollgate::Micros::from_secs(1_800_000_000));
        let audit_log = Arc::new(AuditLog::default());
        let prepared = audit_log.prepare(config.audit_log.as_ref());
        audit_log.replace(prepared.expect("a writable file"));
        let gate = Gate::with_clock(&clock, config);
        gate.observe_denials(audit_log.clone());
        Self {
            gate,
            clock,
            audit_log,
            folder,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("denials.jsonl")
    }

    /// Checks a user this many times.
    fn check(&self, user: &str, times: usize, origin: &RequestOrigin) {
        let attributes = [("user", user), ("email", "ann@example.com")];
        let attributes = tollgate_gate::api::NamedAttributes(
            attributes
                .map(|(name, value)| (name.into(), value.to_owned().into()))
                .into_iter()
                .collect(),
        );
        let active = self.gate.active();
        let options = CheckOptions {
            limits: None,
            cost: None,
            intent: Intent::Spend,
            origin,
        };
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().expect("a runtime");
        for _ in 0..times {
            let decided = self.gate.decide(&active, &attributes, options);
            drop(runtime.block_on(decided).expect("a decision"));
        }
    }

    /// Ends the log, and returns the lines of the file.
    fn lines(&self) -> Vec<Value> {
        self.audit_log.finish();
        let text = fs::read_to_string(self.file()).expect("a file");
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    fn dropped(&self) -> [u64; 3] {
        self.audit_log.dropped().map(|(_, count)| count)
    }
}

impl Drop for AuditedGate {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn unknown() -> RequestOrigin {
    RequestOrigin::default()
}

#[test]
fn a_line_has_the_limit_the_key_the_ids_and_no_hidden_character() {
    let log = AuditedGate::new("{ to: FILE }");
    let origin = RequestOrigin {
        request_id: hyper::header::HeaderValue::from_bytes("r\u{202e}1".as_bytes()).ok(),
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
            .parse()
            .ok(),
    };
    log.check("ann\u{200b}\n", 2, &origin);

    let lines = log.lines();
    let [line] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert_eq!(line["time"], "2027-01-15T08:00:00.000Z");
    assert_eq!(
        (
            &line["event"],
            &line["limit"],
            &line["cost"],
            &line["source"]
        ),
        (&"denied".into(), &"api".into(), &1.into(), &"store".into())
    );
    assert_eq!(line["retry_after_ms"], 3_600_000);
    assert_eq!(line["request_id"], "r\u{202e}1");
    assert_eq!(line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(line["key"][0]["value"], "ann\u{200b}\n");
    assert_eq!(
        (&line["key"][1]["attribute"], &line["key"][1]["hashed"]),
        (&"email".into(), &true.into())
    );

    let text = fs::read_to_string(log.file()).expect("a file");
    assert!(
        text.contains(r"r\u202e1") && text.contains(r"ann\u200b\n"),
        "{text}"
    );
    assert!(!text.contains("ann@example.com"), "{text}");
}

#[test]
fn no_second_has_more_lines_than_the_bound_and_the_rest_is_counted() {
    let log = AuditedGate::new("{ to: FILE, lines_per_second_max: 10 }");
    for _ in 0..3 {
        log.check("ann", 501, &unknown());
        log.clock.advance(std::time::Duration::from_secs(1));
    }
    let lines = log.lines();
    let denied = lines.iter().filter(|line| line["event"] == "denied");
    let seconds: Vec<_> = denied.map(|line| line["time"].to_string()).collect();
    assert!(seconds.len() <= 27, "{}", seconds.len());
    let [rate, queue, output] = log.dropped();
    assert_eq!(
        (1_502 - 27, output),
        (rate, 0),
        "of 1,503 checks, one was allowed"
    );
    assert_eq!(u64::try_from(seconds.len()), Ok(27 - queue));

    let reported = lines.iter().filter_map(|line| line["lines"].as_u64());
    assert!(reported.sum::<u64>() <= rate + queue);
    assert!(
        lines.iter().any(|line| line["event"] == "dropped"),
        "{lines:?}"
    );
}

#[test]
fn the_first_denial_of_each_key_gets_a_line_in_each_period() {
    let log = AuditedGate::new("{ denials: first, per: 10m, to: FILE }");
    for user in ["ann", "bob"] {
        log.check(user, 50, &unknown());
    }
    log.clock.advance(std::time::Duration::from_secs(599));
    log.check("ann", 5, &unknown());
    log.clock.advance(std::time::Duration::from_secs(1));
    log.check("ann", 5, &unknown());

    let users: Vec<_> = log
        .lines()
        .iter()
        .map(|line| line["key"][0]["value"].clone())
        .collect();
    assert_eq!(users, ["ann", "bob", "ann"]);
    assert_eq!(log.dropped(), [0; 3]);
}

fn pipe(folder: &std::path::Path) {
    let made = Command::new("mkfifo")
        .arg(folder.join("denials.jsonl"))
        .status();
    assert!(made.expect("mkfifo").success());
}

#[test]
fn a_pipe_without_a_reader_blocks_nothing() {
    let folder = std::env::temp_dir().join(format!("tollgate-fifo-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a writable directory");
    pipe(&folder);
    let log = AuditedGate::in_folder("{ to: FILE, lines_per_second_max: 1000000 }", folder);
    log.check("ann", 20_000, &unknown());
    assert!(
        log.dropped()[1] > 0,
        "the queue is bounded: {:?}",
        log.dropped()
    );
    log.audit_log.finish();
}

#[test]
fn a_full_pipe_blocks_nothing_and_what_is_missing_is_reported() {
    let folder = std::env::temp_dir().join(format!("tollgate-full-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a writable directory");
    pipe(&folder);
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).expect("a flag");
    let mut reader = fs::OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(folder.join("denials.jsonl"))
        .expect("a pipe");

    let log = AuditedGate::in_folder("{ to: FILE, lines_per_second_max: 1000000 }", folder);
    log.check("ann", 30_000, &unknown());
    let queue = log.dropped()[1];
    assert!(queue > 0, "more than the pipe and the queue hold");

    // A reader gets whole lines, and how many are missing.
    let mut text = String::new();
    while !text.contains(r#""event":"dropped""#) {
        let mut bytes = vec![0; 65_536];
        match reader.read(&mut bytes) {
            Ok(count) => text.push_str(&String::from_utf8_lossy(&bytes[..count])),
            Err(_) => std::thread::yield_now(),
        }
    }
    let whole = &text[..text.rfind('\n').expect("a line")];
    for line in whole.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
    log.audit_log.finish();
}

#[test]
fn a_file_is_rotated_and_the_oldest_is_dropped() {
    let log = AuditedGate::new("{ to: FILE, rotate: { size: 4KiB, keep: 2 } }");
    log.check("ann", 101, &unknown());
    log.audit_log.finish();

    let path = log.file().display().to_string();
    let mut lines = 0;
    for name in [path.clone(), format!("{path}.1"), format!("{path}.2")] {
        let text = fs::read_to_string(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.len() <= 4_096, "{name}: {}", text.len());
        for line in text.lines() {
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
            lines += 1;
        }
    }
    assert!(!fs::exists(format!("{path}.3")).expect("a readable directory"));
    assert_eq!(log.audit_log.written(), 100);
    assert!((30..100).contains(&lines), "{lines} lines are kept");
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error() {
    let text = "audit_log: { to: /nowhere/denials.jsonl }\n\
                limits: [{ name: a, key: [], algorithm: sliding_log, limit: 1, window: 1s }]";
    let config = Config::parse(text, "t.yaml", &|_| None).expect("a valid configuration");
    let error = AuditLog::default().prepare(config.audit_log.as_ref());
    let error = error.expect_err("there is no such directory").to_string();
    assert!(
        error.starts_with("audit_log.to: cannot write to /nowhere/denials.jsonl: "),
        "{error}"
    );
}
