//! Logs to standard error: text on a terminal, JSON otherwise.
//!
//! A thread writes the lines. When standard error is read too slowly, lines are dropped and
//! counted; a request never waits for its log line.

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, OnceLock};

use tollgate_rules::text::{visible_except, visible_json};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::traces::{self, TraceExporter};

/// The most lines that wait to be written.
const QUEUE_MAX: usize = 4_096;
/// The environment variable with the log filter, as in `info,tollgate_server=debug`.
const FILTER_VARIABLE: &str = "TOLLGATE_LOG";

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Human-readable lines.
    Text,
    /// One JSON object per line.
    Json,
}

/// Installs the global subscriber: log events go to standard error, spans to the trace exporter.
/// The last lines are written when the guard is dropped.
pub(crate) fn start(format: Option<LogFormat>, traces: Option<&TraceExporter>) -> WorkerGuard {
    let is_terminal = io::stderr().is_terminal();
    let format = format.unwrap_or(if is_terminal {
        LogFormat::Text
    } else {
        LogFormat::Json
    });

    let (writer, guard) = write_to(io::stderr(), format);
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    let logs = match format {
        LogFormat::Text => layer.with_ansi(is_terminal).with_target(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    let registry = tracing_subscriber::registry().with(logs.with_filter(filter()));

    // Not `registry.with(Option<layer>)`: even an absent layer would enable every span.
    let installed = match traces {
        Some(traces) => tracing::subscriber::set_global_default(registry.with(traces.layer())),
        None => tracing::subscriber::set_global_default(registry),
    };
    // Fails when there is a subscriber already, as in tests.
    drop(installed);
    guard
}

fn filter() -> EnvFilter {
    let configured = std::env::var(FILTER_VARIABLE)
        .ok()
        .and_then(|filter| filter.parse().ok());
    let filter: EnvFilter = configured.unwrap_or_else(|| EnvFilter::new("info"));

    let spans_off = traces::NOT_LOGGED.parse().expect("a valid directive");
    filter.add_directive(spans_off)
}

/// Starts the thread that writes to `output`.
fn write_to(output: impl Write + Send + 'static, format: LogFormat) -> (NonBlocking, WorkerGuard) {
    let dropped: Arc<OnceLock<ErrorCounter>> = Arc::default();
    let output = LogOutput {
        output,
        format,
        dropped: dropped.clone(),
        reported: 0,
    };

    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(QUEUE_MAX)
        .finish(output);
    dropped.get_or_init(|| writer.error_counter());
    (writer, guard)
}

/// Writes lines with their hidden characters escaped, and after a gap how many are missing.
struct LogOutput<W> {
    output: W,
    format: LogFormat,
    /// Counts dropped lines; set before the first line is queued.
    dropped: Arc<OnceLock<ErrorCounter>>,
    /// The dropped lines that were reported.
    reported: usize,
}

impl<W: Write> Write for LogOutput<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let shown = match self.format {
            // The escape character begins a colour; the subscriber escapes those of values.
            LogFormat::Text => visible_except(&text, &['\n', '\x1b']),
            LogFormat::Json => visible_json(&text),
        };
        self.output.write_all(shown.as_bytes())?;

        let dropped = self.dropped.get().map_or(0, ErrorCounter::dropped_lines);
        if dropped > self.reported {
            let missing = dropped - std::mem::replace(&mut self.reported, dropped);
            writeln!(
                self.output,
                "dropped {missing} log lines: standard error was read too slowly"
            )?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// An output that writes a line for each permission, and passes it on.
    struct SlowOutput(Receiver<()>, Sender<String>);

    impl Write for SlowOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            let line = String::from_utf8_lossy(bytes).into_owned();
            self.1.send(line).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn logging_does_not_block_when_the_output_does_and_gaps_are_reported() {
        let (permissions, permission) = channel();
        let (line, lines) = channel();
        let (mut writer, _guard) = write_to(SlowOutput(permission, line), LogFormat::Text);
        for _ in 0..2 * QUEUE_MAX {
            drop(writer.write(b"line\n"));
        }

        let dropped = writer.error_counter().dropped_lines();
        assert!(dropped >= QUEUE_MAX - 1, "{dropped}");

        permissions.send(()).expect("the thread waits");
        assert_eq!(lines.recv().as_deref(), Ok("line\n"));
        permissions.send(()).expect("the thread waits");
        let report = lines.recv().expect("a report");
        assert!(report.starts_with("dropped "), "{report}");
    }

    #[test]
    fn hidden_characters_are_escaped() {
        let line = "\x1b[33mWARN\x1b[0m a\u{202e}b\n";
        for (format, expected) in [
            (LogFormat::Text, "\x1b[33mWARN\x1b[0m a\\u{202e}b\n"),
            (LogFormat::Json, "\\u001b[33mWARN\\u001b[0m a\\u202eb\n"),
        ] {
            let (mut output, dropped) = (Vec::new(), Arc::default());
            let mut writer = LogOutput {
                output: &mut output,
                format,
                dropped,
                reported: 0,
            };
            assert_eq!(writer.write(line.as_bytes()).ok(), Some(line.len()));
            assert_eq!(String::from_utf8_lossy(&output), expected);
        }
    }
}
