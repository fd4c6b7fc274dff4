//! A connection to a server whose replies are delayed, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::connection_loop::{ConnectionLoop, DrainedConnections};
use super::{CallDeadline, CallResult, LateReply, LinkState};
use crate::connector::{Connector, RespConnection};
use crate::endpoint::Address;
use crate::error::{CallError, ServerError};
use crate::resp::{self, RespValue};
use crate::server_check::CHECK_INTERVAL;
use crate::wire::{Operation, StoreCall};

const TIMEOUT: Duration = Duration::from_millis(10);
/// The time of a whole decision.
const DECISION_TIMEOUT: Duration = Duration::from_millis(100);
/// The reply to a lease call is used for this long.
const LEASE: Duration = Duration::from_millis(900);
/// The resolution of the runtime's timers.
const TICK: Duration = Duration::from_millis(1);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Runs a test in virtual time, which advances when every task waits.
fn in_virtual_time<T>(test: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.expect("a runtime starts").block_on(test)
}

/// A link that is up, without a task that reconnects.
struct Scene {
    state: Arc<LinkState>,
    task: JoinHandle<ServerError>,
}

impl Scene {
    /// A link whose connection is served, and drained when the server is silent or slow.
    fn new(delays: Vec<Duration>) -> Self {
        let state = link_state();
        let (link, connection) = (state.clone(), connect(&state, delays));
        let task = tokio::spawn(async move {
            let mut drained = DrainedConnections::default();
            let (error, open) = connection.serve(&server()).await;
            link.mark_down(&error);
            if let Some(connection) = open {
                drained.add(connection, error.clone());
            }
            sleep(LEASE).await;
            error
        });
        Self { state, task }
    }

    fn submit(&self, slot: u16, deadline: CallDeadline) -> oneshot::Receiver<CallResult> {
        submit(&self.state, slot, deadline)
    }
}

fn server() -> Address {
    Address::new("server", 1)
}

/// The state of a link that is up.
pub(super) fn link_state() -> Arc<LinkState> {
    let state = Arc::new(LinkState::new(Arc::new(Connector {
        credentials: None,
        database: 0,
        #[cfg(feature = "tls")]
        tls: None,
        connect_timeout: TIMEOUT,
        timeout: TIMEOUT,
        decision_timeout: DECISION_TIMEOUT,
        // Calls of different slots do not share a script call, so that each has its own reply.
        is_cluster: true,
        probe_keys: Default::default(),
        check_interval: CHECK_INTERVAL,
        clock: None,
        runtime: Handle::current(),
    })));
    state.mark_up();
    state
}

/// A connection to a server that delays the reply to the call in slot `n` by the `n`-th delay; the
/// last one applies to all further slots.
fn connect(state: &Arc<LinkState>, delays: Vec<Duration>) -> ConnectionLoop {
    let (client, server) = duplex(1 << 20);
    tokio::spawn(serve_delayed(server, delays));
    ConnectionLoop::new(state.clone(), RespConnection::new(client, None))
}

pub(super) fn submit(
    state: &LinkState,
    slot: u16,
    deadline: CallDeadline,
) -> oneshot::Receiver<CallResult> {
    let call = StoreCall {
        operation: Operation::Spend,
        demands: 1,
        lockouts: Vec::new(),
        keys: [slot.to_string().into_bytes()].into_iter().collect(),
        arguments: Vec::new(),
        slot,
    };
    let submitted = state.submit(Arc::new(call), deadline, false);
    submitted.unwrap_or_else(|error| {
        let (sender, receiver) = oneshot::channel();
        assert!(sender.send(Err(error)).is_ok());
        receiver
    })
}

pub(super) fn strict() -> CallDeadline {
    (Instant::now() + DECISION_TIMEOUT).into()
}

fn leased() -> CallDeadline {
    leased_until(Instant::now() + DECISION_TIMEOUT)
}

/// The deadline of a lease call for a decision that must be made by then.
fn leased_until(decide_by: Instant) -> CallDeadline {
    let late_reply = LateReply {
        use_until: Instant::now() + LEASE,
        // The decision no longer waits.
        overdue: mpsc::channel(1).0,
    };
    CallDeadline {
        decide_by,
        late_reply: Some(late_reply),
    }
}

/// A server that executes every command on arrival, and sends each reply after its delay and not
/// before the replies to earlier commands.
async fn serve_delayed(stream: DuplexStream, delays: Vec<Duration>) {
    let (mut reader, mut writer) = split(stream);
    let (replies, mut queue) = unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((due, reply)) = queue.recv().await {
            sleep_until(due).await;
            if writer.write_all(&reply).await.is_err() {
                return;
            }
        }
    });

    let mut received = BytesMut::new();
    while reader
        .read_buf(&mut received)
        .await
        .is_ok_and(|read| read > 0)
    {
        while let Some((command, length)) = resp::read_value(&received).expect("a command") {
            reply_to(&command, &delays, &replies);
            received.advance(length);
        }
    }
}

/// Replies to a script call about one key.
fn reply_to(
    command: &RespValue<'_>,
    delays: &[Duration],
    replies: &UnboundedSender<(Instant, Vec<u8>)>,
) {
    let arguments = command.as_array().expect("a command is an array");
    let RespValue::Text(key) = arguments[3] else {
        panic!("a key is a text")
    };
    let slot: u16 = std::str::from_utf8(key)
        .ok()
        .and_then(|slot| slot.parse().ok())
        .expect("the key is the slot");

    let delay = delays.get(usize::from(slot)).or(delays.last());
    let due = Instant::now() + delay.copied().unwrap_or_default();
    // The connection may have been closed.
    let _closed = replies.send((due, reply_of(slot)));
}

/// The length of a reply.
pub(super) const REPLY_LENGTH: usize = 40;

/// The reply to a script call about one key: the slot as the time of the decision, and an empty
/// counter.
pub(super) fn reply_of(slot: u16) -> Vec<u8> {
    let mut reply = b"$33\r\n".to_vec();
    reply.extend(f64::from(slot).to_le_bytes());
    reply.push(1);
    reply.extend([0; 24]);
    reply.extend(b"\r\n");
    reply
}

/// The slot that a reply is about.
fn replied_slot(result: &CallResult) -> Option<u64> {
    result.as_ref().ok().map(|reply| reply.at.get())
}

#[test]
fn calls_to_a_far_server_are_answered_in_time() {
    in_virtual_time(async {
        let scene = Scene::new(vec![millis(8)]);
        let mut results = Vec::new();
        // 400 calls per second.
        for slot in 0..2_000 {
            results.push((slot, scene.submit(slot, strict())));
            sleep(millis(2 + u64::from(slot % 2))).await;
        }

        for (slot, result) in results {
            let result = result.await.expect("the link answers");
            assert_eq!(replied_slot(&result), Some(slot.into()));
        }
    });
}

#[test]
fn a_late_reply_to_a_lease_call_is_used_after_the_breaker_has_opened() {
    in_virtual_time(async {
        let scene = Scene::new(vec![millis(30)]);
        let start = Instant::now();
        let (lease_call, strict_call) = (scene.submit(0, leased()), scene.submit(1, strict()));

        let result = strict_call.await.expect("the link answers");
        assert!(matches!(result, Err(CallError::Timeout)));
        assert!(start.elapsed() <= TIMEOUT + TICK);

        sleep(TIMEOUT + 2 * TICK).await;
        assert!(!scene.state.is_up(), "silent for two timeouts");
        let refused = scene.submit(2, leased()).await.expect("an error");
        assert!(matches!(refused, Err(CallError::NotSent(_))));

        let late = lease_call.await.expect("the link answers");
        assert_eq!(replied_slot(&late), Some(0));
        assert!(start.elapsed() >= millis(30));
    });
}

#[test]
fn a_call_that_was_not_sent_in_time_has_not_run() {
    in_virtual_time(async {
        let scene = Scene::new(vec![millis(15)]);
        // Two full rounds, so that the next call waits in the queue.
        let _in_flight: Vec<_> = (0..256).map(|slot| scene.submit(slot, leased())).collect();
        let decide_by = Instant::now() + TIMEOUT;
        let waiting = scene.submit(256, leased_until(decide_by));

        let result = waiting.await.expect("the link answers");
        assert!(matches!(result, Err(CallError::Expired)));
        assert!(Instant::now() <= decide_by + TICK);
    });
}

#[test]
fn time_in_the_queue_is_not_time_of_the_store() {
    in_virtual_time(async {
        let scene = Scene::new(vec![millis(8)]);
        // Two full rounds, so that the next calls wait in the queue for several of them.
        let calls: Vec<_> = (0..900).map(|slot| scene.submit(slot, strict())).collect();
        for (slot, result) in (0..).zip(calls) {
            let result = result.await.expect("the link answers");
            assert_eq!(replied_slot(&result), Some(slot));
        }
    });
}

#[test]
fn a_decision_ends_with_its_own_time_while_the_store_has_more() {
    in_virtual_time(async {
        let scene = Scene::new(vec![millis(9)]);
        let decide_by = Instant::now() + millis(4);
        let result = scene.submit(0, decide_by.into()).await;
        assert!(matches!(result, Ok(Err(CallError::Overdue))));
        assert!(Instant::now() <= decide_by + TICK);

        sleep(DECISION_TIMEOUT).await;
        assert!(scene.state.is_up(), "the server has replied in time");
    });
}

#[test]
fn the_decision_that_waits_for_a_lease_call_hears_when_the_reply_is_late() {
    in_virtual_time(async {
        // The second is silent for two timeouts, so that the connection is drained.
        for delay in [millis(15), millis(500)] {
            let scene = Scene::new(vec![delay]);
            let start = Instant::now();
            let (overdue, mut error) = mpsc::channel(1);
            let late_reply = LateReply {
                use_until: start + LEASE,
                overdue,
            };
            let deadline = CallDeadline {
                decide_by: start + DECISION_TIMEOUT,
                late_reply: Some(late_reply),
            };
            let reply = scene.submit(0, deadline);

            let error = error.recv().await.expect("the reply is late");
            assert_eq!(error, CallError::Timeout);
            assert!(start.elapsed() <= TIMEOUT + TICK);
            let reply = reply.await.expect("the link answers");
            assert_eq!(replied_slot(&reply), Some(0));
        }
    });
}

#[test]
fn a_connection_that_is_drained_ends_with_the_last_lease() {
    in_virtual_time(async {
        let scene = Scene::new(vec![millis(5_000)]);
        let start = Instant::now();
        let result = scene.submit(0, leased()).await.expect("the link answers");
        assert!(matches!(result, Err(CallError::Unavailable(_))));
        assert!(start.elapsed() <= LEASE + TICK);

        let error = scene.task.await.expect("the connection is served");
        assert_eq!(error.to_string(), "server:1: the server does not reply");
    });
}

#[test]
fn a_connection_to_a_former_primary_is_closed() {
    in_virtual_time(async {
        let state = link_state();
        let mut drained = DrainedConnections::default();
        drained.keep_only(&server());

        let calls = [0, 1].map(|slot| submit(&state, slot, leased()));
        let connection = connect(&state, vec![millis(30), millis(60)]);
        let (error, open) = connection.serve(&server()).await;
        drained.add(open.expect("a connection to drain"), error);

        // A new connection to the same server changes nothing.
        drained.keep_only(&server());
        let [first, second] = calls;
        assert!(first.await.expect("the link answers").is_ok());

        drained.keep_only(&Address::new("successor", 1));
        assert!(second.await.is_err(), "the reply is not used");
    });
}

proptest! {
    /// Whatever the delays, no request waits for the server longer than the timeout, no reply
    /// reaches another caller, and the reply to a lease call is used even after the breaker has
    /// opened. There are so few calls that none waits in the queue.
    #[test]
    fn delayed_replies_reach_their_callers(
        plan in prop::collection::vec((0..4_u64, 0..40_u64, any::<bool>()), 1..60),
    ) {
        in_virtual_time(async {
            let delays = plan.iter().map(|(_, delay, _)| millis(*delay)).collect();
            let scene = Scene::new(delays);
            let mut tasks = Vec::new();
            for (slot, (pause, _, is_leased)) in (0..).zip(&plan) {
                let deadline = if *is_leased { leased() } else { strict() };
                let result = scene.submit(slot, deadline);
                let start = Instant::now();
                tasks.push(tokio::spawn(async move {
                    let result = result.await.expect("the link answers");
                    (result, start.elapsed())
                }));
                sleep(millis(*pause)).await;
            }

            for (slot, (task, (_, _, is_leased))) in (0..).zip(tasks.into_iter().zip(&plan)) {
                let (result, took) = task.await.expect("a task is not aborted");
                match &result {
                    Ok(reply) => assert_eq!(reply.at.get(), slot, "a reply to another call"),
                    Err(CallError::Timeout | CallError::Unavailable(_)) => {
                        assert!(!is_leased, "the reply to a lease call was lost: {slot}");
                    }
                    Err(CallError::Expired | CallError::NotSent(_)) => {}
                    Err(error) => panic!("{error:?}"),
                }
                assert!(*is_leased || took <= TIMEOUT + TICK, "{took:?}");
            }
        });
    }
}
