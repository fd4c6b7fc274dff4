//! Every state that a small bucket and a few processes can reach, looked at one by one.
//!
//! Time goes in steps. At each of them any process may spend what it holds, ask, renew or give back
//! with any number of units, give up a trip, or crash; any message may arrive, late or never. A
//! process here follows the rules of the lease table and nothing of its prudence: it takes as much
//! as it likes whenever it likes. In every state two things must hold:
//!
//! - what is left at the store and what processes can still spend are at most the capacity
//!   together;
//! - a bucket from which every admission so far was taken when it happened never went below
//!   nothing, which is the bound over every interval at once.

use std::collections::HashSet;

use super::bucket::Bucket;

/// More would take too long to look at.
const STATES_MAX: usize = 3_000_000;

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub struct Small {
    /// The bucket's capacity.
    pub capacity: u8,
    /// Microseconds in which one unit comes.
    pub period: u32,
    /// Processes.
    pub processes: usize,
    /// Steps of time, and how long each is in microseconds.
    pub steps: u32,
    /// See `steps`.
    pub step: u32,
    /// Trips that may be made in all.
    pub trips: u8,
    /// How long a process spends a lease, in microseconds.
    pub life: u32,
}

/// One process, as the lease table would have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Process {
    left: u8,
    held: u8,
    ends: u32,
    generation: u32,
    is_in_flight: bool,
}

/// A message under way. Nobody waits any more for one without an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Message {
    owner: Option<u8>,
    asked_at: u32,
    keep: u8,
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Way {
    There {
        cost: u8,
        most: u8,
        generation: u32,
        held: u8,
        back: u8,
    },
    Back {
        units: u8,
        generation: u32,
        is_kept: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u32,
    store: Bucket,
    processes: Vec<Process>,
    messages: Vec<Message>,
    trips: u8,
    /// What is missing from a bucket from which every admission was taken when it happened, in
    /// microseconds.
    missing: u32,
}

impl Small {
    /// Looks at every state that can be reached; says how many there are, or how one came about
    /// that must not be.
    pub fn explore(&self) -> Result<usize, String> {
        let start = State {
            now: 10_000_000,
            store: Bucket::new(i128::from(self.capacity), (1, i128::from(self.period))),
            processes: vec![Process::default(); self.processes],
            messages: Vec::new(),
            trips: 0,
            missing: 0,
        };
        let mut known = HashSet::from([start.clone()]);
        // Every state, in the order of finding, with the one it came from.
        let mut states = vec![(start, 0)];
        let mut index = 0;
        while let Some((state, _)) = states.get(index).cloned() {
            self.check(&state)
                .map_err(|wrong| format!("{wrong}\n{}", told(&states, index)))?;
            for mut next in self.next(&state) {
                next.tidy();
                if known.insert(next.clone()) {
                    states.push((next, index));
                }
            }
            index += 1;
            if index > STATES_MAX {
                return Err(format!(
                    "more than {STATES_MAX} states: explore something smaller"
                ));
            }
        }
        Ok(states.len())
    }

    fn whole(&self) -> u32 {
        u32::from(self.capacity) * self.period
    }

    fn check(&self, state: &State) -> Result<(), String> {
        if state.missing > self.whole() {
            return Err("more was admitted than the bucket ever had".to_owned());
        }
        let mut store = state.store.clone();
        store.see(i128::from(state.now));
        let live = |process: &Process| {
            if state.now < process.ends {
                u32::from(process.left)
            } else {
                0
            }
        };
        let held: u32 = state.processes.iter().map(live).sum();
        let coming = state
            .messages
            .iter()
            .filter(|message| message.owner.is_some())
            .map(|message| match message.way {
                Way::Back { units, .. } if state.now < message.asked_at + self.life => {
                    u32::from(units)
                }
                _ => 0,
            });
        let spendable = i128::from((held + coming.sum::<u32>()) * self.period);
        let left = i128::from(self.whole()) - store.backlog(i128::from(state.now));
        if left + spendable > i128::from(self.whole()) {
            return Err(format!(
                "{left} left and {spendable} held of {}",
                self.whole()
            ));
        }
        Ok(())
    }

    fn next(&self, state: &State) -> Vec<State> {
        let mut next = Vec::new();
        if state.now < 10_000_000 + self.steps * self.step {
            let mut later = state.clone();
            later.now += self.step;
            later.missing = later.missing.saturating_sub(self.step);
            next.push(later);
        }
        for index in 0..state.processes.len() {
            self.act(state, index, &mut next);
        }
        for index in 0..state.messages.len() {
            next.extend(self.deliver(state, index));
        }
        // Somebody else asks the store.
        let (mut other, at) = (state.clone(), i128::from(state.now));
        other.store.see(at);
        if other.store.fits(1, at) {
            other.store.add(1, at);
            other.store.write();
            other.missing += self.period;
            next.push(other);
        }
        next
    }

    /// What a process can do by itself.
    fn act(&self, state: &State, index: usize, next: &mut Vec<State>) {
        let process = state.processes[index];
        let owner = u8::try_from(index).ok();
        let mut with = |process: Process, also: &dyn Fn(&mut State)| {
            let mut after = state.clone();
            after.processes[index] = process;
            also(&mut after);
            next.push(after);
        };
        if process.left > 0 && state.now < process.ends {
            with(
                Process {
                    left: process.left - 1,
                    ..process
                },
                &|after| after.missing += self.period,
            );
        }
        let orphan = |after: &mut State| {
            after
                .messages
                .iter_mut()
                .filter(|message| message.owner == owner)
                .for_each(|message| message.owner = None);
        };
        if process != Process::default() {
            with(Process::default(), &orphan);
        }
        if process.is_in_flight {
            // No answer came in time.
            with(
                Process {
                    is_in_flight: false,
                    generation: 0,
                    held: 0,
                    ..process
                },
                &orphan,
            );
        } else if state.trips < self.trips {
            for (after, message) in self.departures(state.now, process, owner) {
                with(after, &|state| {
                    state.messages.push(message);
                    state.trips += 1;
                });
            }
        }
    }

    /// Every trip that a process could make, and itself once it has left.
    fn departures(&self, now: u32, process: Process, owner: Option<u8>) -> Vec<(Process, Message)> {
        let mut all = Vec::new();
        let takes = [0, 1, self.capacity]
            .into_iter()
            .flat_map(|most| [(1, false, most), (0, true, most)]);
        for (cost, keeps, most) in takes.chain([(0, false, 0)]) {
            let is_known = process.generation != 0;
            let keep = if keeps && is_known { process.left } else { 0 };
            let (generation, held) = if is_known {
                (process.generation, process.held)
            } else {
                (0, 0)
            };
            let back = if is_known { process.left - keep } else { 0 };
            let way = Way::There {
                cost,
                most,
                generation,
                held,
                back,
            };
            let message = Message {
                owner,
                asked_at: now,
                keep,
                way,
            };
            all.push((
                Process {
                    left: keep,
                    is_in_flight: true,
                    ..process
                },
                message,
            ));
        }
        all
    }

    /// A message arrives.
    fn deliver(&self, state: &State, index: usize) -> Option<State> {
        let (mut after, at) = (state.clone(), i128::from(state.now));
        let message = after.messages.remove(index);
        match message.way {
            Way::There {
                cost,
                most,
                generation,
                held,
                back,
            } => {
                let [generation, held, back] = [i128::from(generation), held.into(), back.into()];
                let store = &mut after.store;
                store.see(at);
                let is_kept = store.settle(generation, held, back, at);
                let name = store.open(at);
                store.lend(name, if is_kept { message.keep.into() } else { 0 });
                let fits = store.fits(cost.into(), at);
                let mut units = 0;
                if fits {
                    store.add(cost.into(), at);
                    units = u8::try_from(store.remaining(at).clamp(0, most.into())).ok()?;
                    store.add(units.into(), at);
                    store.lend(name, units.into());
                }
                // Whether anything changes or not, it is written: what is not is the same.
                store.write();
                after.missing += if fits {
                    u32::from(cost) * self.period
                } else {
                    0
                };
                let way = Way::Back {
                    units,
                    generation: u32::try_from(name).ok()?,
                    is_kept,
                };
                after
                    .messages
                    .extend(message.owner.map(|_| Message { way, ..message }));
            }
            Way::Back {
                units,
                generation,
                is_kept,
            } => {
                let process = &mut after.processes[usize::from(message.owner?)];
                let kept = if is_kept { message.keep } else { 0 };
                process.left = if is_kept { process.left } else { 0 } + units;
                process.held = kept + units;
                process.generation = if process.held > 0 { generation } else { 0 };
                process.ends = message.asked_at + self.life;
                process.is_in_flight = false;
            }
        }
        Some(after)
    }
}

impl State {
    /// The same for what means the same.
    fn tidy(&mut self) {
        self.store.tidy(i128::from(self.now));
        for message in self
            .messages
            .iter_mut()
            .filter(|message| message.owner.is_none())
        {
            message.asked_at = 0;
        }
        self.messages
            .retain(|message| message.owner.is_some() || matches!(message.way, Way::There { .. }));
        self.messages.sort_unstable();
    }
}

/// The states on the way to this one.
fn told(states: &[(State, usize)], mut index: usize) -> String {
    let mut lines = Vec::new();
    loop {
        lines.push(format!("{:?}", states[index].0));
        if index == 0 {
            break;
        }
        index = states[index].1;
    }
    lines.reverse();
    lines.join("\n")
}
