//! A client of the event stream.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use super::Counts;
use crate::harness::{PATIENCE, Tollgate};

/// A connection to the event stream. It uses HTTP/1.0 to avoid the chunked encoding.
pub(super) struct Viewer {
    stream: BufReader<TcpStream>,
    pub(super) status: u16,
}

/// One event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) data: Value,
}

impl Viewer {
    pub(super) fn open(service: &Tollgate) -> Self {
        Self::with(service, "")
    }

    /// Connects with additional header lines, each with its line end.
    pub(super) fn with(service: &Tollgate, lines: &str) -> Self {
        let mut stream = TcpStream::connect(service.admin).expect("it listens");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a time that can be set");
        let head = format!(
            "GET /admin/events HTTP/1.0\r\nHost: {}\r\n{lines}\r\n",
            service.admin
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut viewer = Self {
            stream: BufReader::new(stream),
            status: 0,
        };
        let status = viewer.line().expect("an answer");
        viewer.status = status
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .expect("a status");
        while viewer.line().is_ok_and(|line| !line.is_empty()) {}
        viewer
    }

    /// The next event; `None` at the end of the stream.
    pub(super) fn next(&mut self) -> Option<Event> {
        let name = self.line().ok()?.strip_prefix("event: ")?.to_owned();
        let data = self
            .line()
            .ok()?
            .strip_prefix("data: ")
            .map(serde_json::from_str);
        let data = data.expect("data").expect("JSON on one line");
        assert_eq!(self.line().ok()?, "");
        Some(Event { name, data })
    }

    /// Reads events until one is wanted.
    pub(super) fn until(&mut self, what: &str, mut is_wanted: impl FnMut(&Event) -> bool) -> Event {
        loop {
            let event = self
                .next()
                .ok_or_else(|| format!("the end came before {what}"))
                .expect("an event");
            if is_wanted(&event) {
                return event;
            }
        }
    }

    /// Reads events until a `now` event is wanted, and returns its data.
    pub(super) fn until_now(&mut self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        self.until(what, |event| event.name == "now" && is_wanted(&event.data))
            .data
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}

/// The id of a limit and its counts in a `limits` event.
pub(super) fn totals(limits: &Value, name: &str) -> (u64, Counts) {
    let all = limits["limits"].as_array().expect("a list");
    let limit = all
        .iter()
        .find(|limit| limit["name"] == name)
        .expect("a limit of that name");
    let counts = [0, 1, 2].map(|place| limit["counts"][place].as_u64().expect("a count"));
    (limit["id"].as_u64().expect("an id"), counts)
}

/// Adds the counts of a limit in a sample.
pub(super) fn add(counts: &mut Counts, sample: &Value, id: u64) {
    for row in sample["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .filter(|row| row[0] == id)
    {
        for (place, count) in counts.iter_mut().enumerate() {
            *count += row[place + 1].as_u64().expect("a count");
        }
        let by_source: u64 = (4..9)
            .map(|place| row[place].as_u64().expect("a count"))
            .sum();
        let by_outcome: u64 = (1..4)
            .map(|place| row[place].as_u64().expect("a count"))
            .sum();
        assert_eq!(by_source, by_outcome, "{row}");
    }
}
