//! A proxy that comes and goes by itself.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::fault::Entry;
use super::gate::Gate;
use super::state::State;

/// Ends, wherever the gate stands then, when it is dropped.
#[derive(Debug)]
pub(super) struct Flapping {
    /// Dropping it is the signal to end.
    going_on: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Flapping {
    /// Begins with everything cut and refused, which holds when this returns.
    pub(super) fn start(every: Duration, gate: &Arc<Gate>, state: &Arc<State>) -> Self {
        go_away(gate, state);
        let (sender, end) = channel();
        let builder = state.thread();
        let (gate, state) = (Arc::clone(gate), Arc::clone(state));
        let thread = builder.spawn(move || {
            while waits(&end, every) {
                gate.set(Entry::Open);
                if !waits(&end, every) {
                    return;
                }
                go_away(&gate, &state);
            }
        });
        Self {
            going_on: Some(sender),
            thread: Some(thread.expect("there is room for a thread")),
        }
    }
}

impl Drop for Flapping {
    fn drop(&mut self) {
        drop(self.going_on.take());
        let _panicked = self.thread.take().map(JoinHandle::join);
    }
}

/// Whether the time passed without the signal to end.
fn waits(end: &Receiver<()>, time: Duration) -> bool {
    end.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
}

fn go_away(gate: &Gate, state: &State) {
    gate.set(Entry::Refused);
    state.cut();
}
