//! Logs: to standard error, as text for a terminal and as JSON for programs. Whoever reads them
//! slowly, or not at all, misses some; nobody waits for a log to be read.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};

use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::cli::LogFormat;
use crate::traces::{self, TraceExporter};

/// Lines that may wait to be written.
const WAITING_MAX: usize = 4_096;
/// Which level and which parts of the program, as in `tollgate_server=debug`.
const FILTER_VARIABLE: &str = "TOLLGATE_LOG";

/// Sends everything that is logged to standard error from now on, and spans to whoever collects
/// them.
pub(crate) fn start(format: Option<LogFormat>, traces: Option<&TraceExporter>) {
    let is_terminal = io::stderr().is_terminal();
    let format = format.unwrap_or(if is_terminal {
        LogFormat::Text
    } else {
        LogFormat::Json
    });
    let lines = Lines::to(io::stderr());
    let logs = match format {
        LogFormat::Text => tracing_subscriber::fmt::layer()
            .with_ansi(is_terminal)
            .with_target(false)
            .with_writer(lines)
            .boxed(),
        LogFormat::Json => tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_writer(lines)
            .boxed(),
    };
    let registry = tracing_subscriber::registry().with(logs.with_filter(filter()));
    // A layer that is not there would still want every span to be made.
    let started = match traces {
        Some(traces) => tracing::subscriber::set_global_default(registry.with(traces.layer())),
        None => tracing::subscriber::set_global_default(registry),
    };
    // Someone else, a test for example, may already listen.
    drop(started);
}

fn filter() -> EnvFilter {
    let wanted = std::env::var(FILTER_VARIABLE)
        .ok()
        .and_then(|wanted| wanted.parse().ok());
    let wanted: EnvFilter = wanted.unwrap_or_else(|| EnvFilter::new("info"));
    wanted.add_directive(
        traces::NOT_LOGGED
            .parse()
            .expect("a directive that is right"),
    )
}

/// Where lines go: to a thread that writes them.
#[derive(Clone, Debug)]
struct Lines {
    sender: SyncSender<Vec<u8>>,
    /// Lines that found no room.
    lost: Arc<AtomicU64>,
}

impl Lines {
    fn to(mut output: impl Write + Send + 'static) -> Self {
        let (sender, lines) = sync_channel::<Vec<u8>>(WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let missed = lost.clone();
        std::thread::spawn(move || {
            for line in lines {
                // When nobody reads any more, there is nobody to tell.
                drop(output.write_all(&line));
                let lost = missed.swap(0, Relaxed);
                if lost > 0 {
                    drop(writeln!(
                        output,
                        "{lost} log lines were lost, because nobody read them in time"
                    ));
                }
            }
        });
        Self { sender, lost }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            lines: self,
            bytes: Vec::with_capacity(256),
        }
    }
}

/// One line being written.
struct Line<'a> {
    lines: &'a Lines,
    bytes: Vec<u8>,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let line = std::mem::take(&mut self.bytes);
        if !line.is_empty() && self.lines.sender.try_send(line).is_err() {
            self.lines.lost.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output whose reader has stopped reading.
    struct Blocked(std::sync::mpsc::Receiver<()>);

    impl Write for Blocked {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_a_log_that_nobody_reads() {
        let (_unread, reader) = sync_channel(0);
        let lines = Lines::to(Blocked(reader));
        for _ in 0..2 * WAITING_MAX {
            drop(lines.make_writer().write(b"line\n"));
        }
        assert!(lines.lost.load(Relaxed) >= WAITING_MAX as u64 - 1);
    }
}
