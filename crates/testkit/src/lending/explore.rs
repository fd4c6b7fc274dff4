//! Model checking: visits every state that a small bucket and a few instances can reach.
//!
//! Time advances in steps. At each step any instance may spend leased units, check, renew or return
//! any number of units, time out a store call, or crash; any message may arrive, late or never. An
//! instance follows the rules of the lease table but none of its heuristics: it leases any number
//! of units at any time. Another client checks and counts at the store; counts may leave it in debt.
//! In every state three invariants must hold:
//!
//! - what remains in the store plus what instances can still spend is at most the capacity;
//! - a bucket from which every admission was taken at the time when it happened never was below
//!   zero, which is the bound over every interval;
//! - a bucket from which counted units were taken as well never was below the store's, which may be
//!   in debt: nothing that was used is forgotten.

use std::collections::HashSet;

use super::bucket::LendingBucket;

/// More states would take too long.
const STATES_MAX: usize = 3_000_000;

/// The size of the state space.
#[derive(Clone, Copy, Debug)]
pub struct Small {
    /// The bucket's capacity.
    pub capacity: u8,
    /// Microseconds until one unit is refilled.
    pub period: u32,
    /// The number of instances.
    pub processes: usize,
    /// The number of time steps.
    pub steps: u32,
    /// The length of a time step in microseconds.
    pub step: u32,
    /// The most store calls in a run.
    pub calls: u8,
    /// How often another client counts a full bucket.
    pub counts: u8,
    /// The possible lengths of a lease in microseconds.
    pub lengths: [u32; 2],
    /// How long an instance spends a lease, in percent of its length.
    pub life: u32,
}

/// One instance with its lease, as in the lease table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Instance {
    left: u8,
    held: u8,
    ends: u32,
    generation: u32,
    is_in_flight: bool,
}

/// A message in flight. Without an owner, no instance waits for it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Message {
    owner: Option<u8>,
    sent_at: u32,
    length: u32,
    keep: u8,
    body: MessageBody,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum MessageBody {
    Request {
        cost: u8,
        most: u8,
        generation: u32,
        held: u8,
        back: u8,
    },
    Reply {
        units: u8,
        generation: u32,
        is_kept: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u32,
    store: LendingBucket,
    processes: Vec<Instance>,
    messages: Vec<Message>,
    calls: u8,
    counts: u8,
    /// What is missing from a bucket from which every admission was taken at the time when it
    /// happened, in microseconds.
    missing: u32,
    /// The same, with the units that were counted.
    used: u32,
}

impl Small {
    /// Visits every reachable state. Returns their number, or the path to a state that violates an
    /// invariant.
    pub fn explore(&self) -> Result<usize, String> {
        let start = State {
            now: 10_000_000,
            store: LendingBucket::new(i128::from(self.capacity), (1, i128::from(self.period))),
            processes: vec![Instance::default(); self.processes],
            messages: Vec::new(),
            calls: 0,
            counts: 0,
            missing: 0,
            used: 0,
        };

        let mut known = HashSet::from([start.clone()]);
        // Every state, in the order of discovery, with the index of its predecessor.
        let mut states = vec![(start, 0)];
        let mut index = 0;

        while let Some((state, _)) = states.get(index).cloned() {
            self.check(&state)
                .map_err(|wrong| format!("{wrong}\n{}", path_to(&states, index)))?;

            for mut next in self.next(&state) {
                next.tidy();
                if known.insert(next.clone()) {
                    states.push((next, index));
                }
            }

            index += 1;
            if index > STATES_MAX {
                return Err(format!("more than {STATES_MAX} states: reduce the size"));
            }
        }

        Ok(states.len())
    }

    /// When the lease of a message ends in the instance that sent it.
    fn end(&self, message: &Message) -> u32 {
        message.sent_at + message.length / 100 * self.life
    }

    fn whole(&self) -> u32 {
        u32::from(self.capacity) * self.period
    }

    fn check(&self, state: &State) -> Result<(), String> {
        if state.missing > self.whole() {
            return Err("more was admitted than the bucket ever had".to_owned());
        }

        let mut store = state.store.clone();
        store.update(i128::from(state.now));

        let live = |process: &Instance| {
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
            .map(|message| match message.body {
                MessageBody::Reply { units, .. } if state.now < self.end(message) => {
                    u32::from(units)
                }
                _ => 0,
            });

        let spendable = i128::from((held + coming.sum::<u32>()) * self.period);
        let backlog = store.backlog(i128::from(state.now));
        if i128::from(state.used) > backlog {
            return Err(format!("{} used, and {backlog} counted", state.used));
        }

        let left = (i128::from(self.whole()) - backlog).max(0);
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
            later.used = later.used.saturating_sub(self.step);
            next.push(later);
        }

        for index in 0..state.processes.len() {
            self.act(state, index, &mut next);
        }
        for index in 0..state.messages.len() {
            next.extend(self.deliver(state, index));
        }

        // Another client checks at the store.
        let (mut other, at) = (state.clone(), i128::from(state.now));
        other.store.update(at);
        if other.store.fits(1, at) {
            other.store.add(1, at);
            other.admit(self.period);
            next.push(other);
        }

        // Another client counts as much as the bucket holds.
        if state.counts < self.counts {
            let mut other = state.clone();
            other.store.update(at);
            let units = i128::from(self.capacity);
            other.store.count(units, units, at);
            other.used = (other.used + self.whole()).min(2 * self.whole());
            other.counts += 1;
            next.push(other);
        }

        next
    }

    /// The steps that an instance can take by itself.
    fn act(&self, state: &State, index: usize, next: &mut Vec<State>) {
        let process = state.processes[index];
        let owner = u8::try_from(index).ok();

        let mut with = |process: Instance, also: &dyn Fn(&mut State)| {
            let mut after = state.clone();
            after.processes[index] = process;
            also(&mut after);
            next.push(after);
        };

        if process.left > 0 && state.now < process.ends {
            with(
                Instance {
                    left: process.left - 1,
                    ..process
                },
                &|after| after.admit(self.period),
            );
        }

        let orphan = |after: &mut State| {
            after
                .messages
                .iter_mut()
                .filter(|message| message.owner == owner)
                .for_each(|message| message.owner = None);
        };

        if process != Instance::default() {
            with(Instance::default(), &orphan);
        }

        if process.is_in_flight {
            // The store call has timed out.
            with(
                Instance {
                    is_in_flight: false,
                    generation: 0,
                    held: 0,
                    ..process
                },
                &orphan,
            );
        } else if state.calls < self.calls {
            for (after, message) in self.calls_of(state.now, process, owner) {
                with(after, &|state| {
                    state.messages.push(message);
                    state.calls += 1;
                });
            }
        }
    }

    /// All store calls that an instance could make, each with the instance's next state.
    fn calls_of(&self, now: u32, process: Instance, owner: Option<u8>) -> Vec<(Instance, Message)> {
        let mut all = Vec::new();

        let takes = [0, 1, self.capacity].into_iter().flat_map(|most| {
            let [long, brief] = self.lengths;
            [
                (1, false, most, long),
                (1, false, most, brief),
                (0, true, most, long),
                (0, true, most, brief),
            ]
        });

        for (cost, keeps, most, length) in takes.chain([(0, false, 0, self.lengths[0])]) {
            let is_known = process.generation != 0;
            let keep = if keeps && is_known { process.left } else { 0 };
            let (generation, held) = if is_known {
                (process.generation, process.held)
            } else {
                (0, 0)
            };
            let back = if is_known { process.left - keep } else { 0 };

            let body = MessageBody::Request {
                cost,
                most,
                generation,
                held,
                back,
            };

            let message = Message {
                owner,
                sent_at: now,
                length,
                keep,
                body,
            };

            all.push((
                Instance {
                    left: keep,
                    is_in_flight: true,
                    ..process
                },
                message,
            ));
        }

        all
    }

    /// Delivers a message.
    fn deliver(&self, state: &State, index: usize) -> Option<State> {
        let (mut after, at) = (state.clone(), i128::from(state.now));
        let message = after.messages.remove(index);

        match message.body {
            MessageBody::Request {
                cost,
                most,
                generation,
                held,
                back,
            } => {
                let [generation, held, back] = [i128::from(generation), held.into(), back.into()];
                let store = &mut after.store;
                store.update(at);

                let is_kept = generation > 0 && store.settle(generation, held, back, at);
                let fits = store.fits(cost.into(), at);
                let mut units = 0;
                if fits {
                    store.add(cost.into(), at);
                    units = u8::try_from(store.remaining(at).clamp(0, most.into())).ok()?;
                    store.add(units.into(), at);
                }

                let leased = i128::from(units) + if is_kept { message.keep.into() } else { 0 };
                let name = match leased {
                    0 => 0,
                    leased => store.lend(leased, message.length.into(), at),
                };

                if fits {
                    after.admit(u32::from(cost) * self.period);
                }

                let body = MessageBody::Reply {
                    units,
                    generation: u32::try_from(name).ok()?,
                    is_kept,
                };
                after
                    .messages
                    .extend(message.owner.map(|_| Message { body, ..message }));
            }
            MessageBody::Reply {
                units,
                generation,
                is_kept,
            } => {
                let process = &mut after.processes[usize::from(message.owner?)];
                let kept = if is_kept { message.keep } else { 0 };
                process.left = if is_kept { process.left } else { 0 } + units;
                process.held = kept + units;
                process.generation = if process.held > 0 { generation } else { 0 };
                process.ends = self.end(&message);
                process.is_in_flight = false;
            }
        }

        Some(after)
    }
}

impl State {
    /// Takes an admission that happens now.
    fn admit(&mut self, micros: u32) {
        self.missing += micros;
        self.used += micros;
    }

    /// Normalises the state, so that equivalent states are equal.
    fn tidy(&mut self) {
        self.store.tidy(i128::from(self.now));
        for message in self
            .messages
            .iter_mut()
            .filter(|message| message.owner.is_none())
        {
            message.sent_at = 0;
        }

        self.messages.retain(|message| {
            message.owner.is_some() || matches!(message.body, MessageBody::Request { .. })
        });
        self.messages.sort_unstable();
    }
}

/// The states on the path to this one.
fn path_to(states: &[(State, usize)], mut index: usize) -> String {
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
