//! A connection to a server whose replies are delayed, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::connection_loop::{ConnectionLoop, DrainedConnections};
use super::{CallDeadline, CallResult, LinkState};
use crate::connector::{Connector, RespConnection};
use crate::endpoint::Address;
use crate::error::{CallError, ServerError};
use crate::resp::{self, RespValue};
use crate::server_check::CHECK_INTERVAL;
use crate::wire::{Operation, StoreCall};

const TIMEOUT: Duration = Duration::from_millis(10);
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
fn link_state() -> Arc<LinkState> {
    let state = Arc::new(LinkState::new(Arc::new(Connector {
        credentials: None,
        database: 0,
        #[cfg(feature = "tls")]
        tls: None,
        connect_timeout: TIMEOUT,
        timeout: TIMEOUT,
        // Calls of different slots do not share a script call, so that each has its own reply.
        is_cluster: true,
        probe_key: String::new(),
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
    ConnectionLoop::new(state.clone(), RespConnection::new(client))
}

fn submit(state: &LinkState, slot: u16, deadline: CallDeadline) -> oneshot::Receiver<CallResult> {
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

fn strict() -> CallDeadline {
    (Instant::now() + TIMEOUT).into()
}

fn leased() -> CallDeadline {
    CallDeadline {
        reply_by: Instant::now() + LEASE,
        ..strict()
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

/// The reply to a script call about one key: the slot as the time of the decision, and an empty
/// counter.
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

    let mut reply = b"$33\r\n".to_vec();
    reply.extend(f64::from(slot).to_le_bytes());
    reply.push(1);
    reply.extend([0; 24]);
    reply.extend(b"\r\n");

    let delay = delays.get(usize::from(slot)).or(delays.last());
    let due = Instant::now() + delay.copied().unwrap_or_default();
    // The connection may have been closed.
    let _closed = replies.send((due, reply));
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
        assert_eq!(scene.state.round_trip.estimate(), millis(8));
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
        let (start, waiting) = (Instant::now(), scene.submit(256, leased()));

        let result = waiting.await.expect("the link answers");
        assert!(matches!(result, Err(CallError::Expired)));
        assert!(start.elapsed() <= TIMEOUT + TICK);
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
    /// Whatever the delays, every request is answered by its deadline, no reply reaches another
    /// caller, and the reply to a lease call is used even after the breaker has opened.
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
