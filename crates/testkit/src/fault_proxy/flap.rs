//! A thread that opens and closes the gate periodically.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::fault::Entry;
use super::gate::Gate;
use super::state::State;

/// The thread ends when this is dropped; the gate stays as it is then.
#[derive(Debug)]
pub(super) struct FlapThread {
    /// Dropping it signals the thread to end.
    keep_alive: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FlapThread {
    /// Starts with the closed phase, which is in effect when this returns.
    pub(super) fn start(every: Duration, gate: &Arc<Gate>, state: &Arc<State>) -> Self {
        close(gate, state);

        let (sender, end) = channel();
        let builder = state.thread();
        let (gate, state) = (Arc::clone(gate), Arc::clone(state));

        let thread = builder.spawn(move || {
            while waits(&end, every) {
                gate.set(Entry::Open);
                if !waits(&end, every) {
                    return;
                }
                close(&gate, &state);
            }
        });

        Self {
            keep_alive: Some(sender),
            thread: Some(thread.expect("a thread can be started")),
        }
    }
}

impl Drop for FlapThread {
    fn drop(&mut self) {
        drop(self.keep_alive.take());
        let _panicked = self.thread.take().map(JoinHandle::join);
    }
}

/// Whether the time passed without the signal to end.
fn waits(end: &Receiver<()>, time: Duration) -> bool {
    end.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
}

fn close(gate: &Gate, state: &State) {
    gate.set(Entry::Refused);
    state.cut();
}
