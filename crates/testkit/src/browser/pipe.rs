//! Commands to the browser and its replies: JSON texts, each followed by a zero byte.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

/// How long a reply may take: a browser starts slowly on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most page errors that are stored.
const COMPLAINTS_MAX: usize = 100;

/// Both directions of the pipe. One command runs at a time.
#[derive(Debug)]
pub(super) struct Pipe {
    session_state: Mutex<Session>,
    complaints: Arc<Mutex<Vec<String>>>,
}

#[derive(Debug)]
struct Session {
    input: ChildStdin,
    answers: Receiver<Value>,
    early: BTreeMap<u64, Value>,
    last: u64,
}

impl Pipe {
    pub(super) fn new(input: ChildStdin, output: ChildStdout) -> Self {
        let (sender, answers) = channel();
        let complaints: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&complaints);

        std::thread::spawn(move || {
            for text in BufReader::new(output).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice::<Value>(&text) else {
                    continue;
                };

                if let Some(complaint) = complaint(&message) {
                    let mut heard = locked(&heard);
                    if heard.len() < COMPLAINTS_MAX {
                        heard.push(complaint);
                    }
                }

                if message["id"].is_u64() && sender.send(message).is_err() {
                    return;
                }
            }
        });

        Self {
            session_state: Mutex::new(Session {
                input,
                answers,
                early: BTreeMap::new(),
                last: 0,
            }),
            complaints,
        }
    }

    /// Runs a command and returns its result.
    ///
    /// # Panics
    ///
    /// If there is no reply, or an error.
    pub(super) fn call(&self, session: Option<&str>, method: &str, parameters: &Value) -> Value {
        let mut answer = locked(&self.session_state).call(session, method, parameters);
        assert!(
            answer["error"].is_null(),
            "{method} failed: {}",
            answer["error"]
        );
        answer["result"].take()
    }

    /// Errors that pages have caused so far: script errors, and actions that the browser blocked.
    pub(super) fn complaints(&self) -> Vec<String> {
        locked(&self.complaints).clone()
    }
}

impl Session {
    fn call(&mut self, session: Option<&str>, method: &str, parameters: &Value) -> Value {
        self.last += 1;
        let mut command = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }

        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        let sent = self
            .input
            .write_all(&bytes)
            .and_then(|()| self.input.flush());
        sent.expect("the browser reads commands");

        loop {
            if let Some(answer) = self.early.remove(&self.last) {
                return answer;
            }

            let answer = self.answers.recv_timeout(PATIENCE);
            let answer = answer.expect("the browser replies, unless it has exited or hangs");
            self.early
                .insert(answer["id"].as_u64().unwrap_or(0), answer);
        }
    }
}

fn complaint(message: &Value) -> Option<String> {
    let parameters = &message["params"];

    match message["method"].as_str()? {
        "Runtime.exceptionThrown" => Some(parameters["exceptionDetails"].to_string()),
        "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
            Some(parameters["entry"].to_string())
        }
        "Runtime.consoleAPICalled" if parameters["type"] == "error" => {
            Some(parameters["args"].to_string())
        }
        _ => None,
    }
}

/// A test that panicked while it held the lock has failed already.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
