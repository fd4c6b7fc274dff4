//! A connection that is looked at late, on a real socket.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::*;
use crate::link::tests::{REPLY_LENGTH, link_state, reply_of, strict, submit};
use crate::wire::{Operation, StoreCall};

/// Longer than the server may take.
const LATE: Duration = Duration::from_secs(1);

/// A connection on which a call is in flight since long ago, and the server's end of it.
async fn connection_with_call(
    state: &Arc<LinkState>,
) -> (
    ConnectionLoop,
    std::net::TcpStream,
    impl Future<Output = bool>,
) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let client = std::net::TcpStream::connect(address).expect("a connection");
    let (mut server, _) = listener.accept().expect("a connection");
    client.set_nonblocking(true).expect("a socket");
    let socket = client.try_clone().expect("a socket");
    let stream = TcpStream::from_std(client).expect("a runtime");

    let mut connection =
        ConnectionLoop::new(state.clone(), RespConnection::new(stream, Some(socket)));
    let reply = submit(state, 0, strict());
    // Sends the call. Nothing polls the connection afterwards.
    drop(timeout(Duration::ZERO, connection.run()).await);
    assert!(server.read(&mut [0; 1_024]).expect("the call") > 0);
    let in_flight = &mut connection.in_flight[0];
    in_flight.written_at = in_flight.written_at.and_then(|at| at.checked_sub(LATE));

    let is_answered = async { matches!(reply.await, Ok(Ok(_))) };
    (connection, server, is_answered)
}

#[test]
fn a_reply_that_has_arrived_is_in_time_whenever_we_look() {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let state = link_state();
        let (mut connection, mut server, is_answered) = connection_with_call(&state).await;

        server.write_all(&reply_of(0)).expect("the client reads");
        // On loopback, what is written has arrived.
        assert!(connection.tick().is_ok(), "the reply is there");
        tokio::select! {
            is_answered = is_answered => assert!(is_answered, "the reply is used"),
            _ = connection.run() => panic!("the connection is usable"),
        }
        assert!(state.is_up() && !connection.rounds.are_late());
    });
}

#[test]
fn a_reply_that_has_not_arrived_whole_is_late() {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        for length in [0, 1, REPLY_LENGTH - 1] {
            let state = link_state();
            let (mut connection, mut server, is_answered) = connection_with_call(&state).await;
            let part = &reply_of(0)[..length];
            server.write_all(part).expect("the client reads");

            let end = connection.run().await;
            assert!(
                matches!(end, Err(ConnectionEnd::Slow(_))),
                "the server is silent"
            );
            drop(connection);
            assert!(!is_answered.await);
        }
    });
}

/// Calls about this number of demands each, which wait to be sent.
fn waiting(state: &Arc<LinkState>, demands: &[usize]) -> Vec<QueuedCall> {
    for demands in demands {
        let call = StoreCall {
            operation: Operation::Spend,
            keys: smallvec::SmallVec::new(),
            demands: *demands,
            lockouts: Vec::new(),
            arguments: Vec::new(),
            slot: 0,
        };
        // A caller that no longer waits is not sent a reply, and its call is not taken.
        let reply = state.submit(Arc::new(call), strict(), false);
        std::mem::forget(reply.expect("the link is up"));
    }
    state.take_waiting(demands.len(), Instant::now())
}

#[test]
fn a_script_call_has_a_bounded_number_of_demands() {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let state = link_state();
        for (demands, expected) in [
            (&[1; 100][..], 64),
            (&[4; 100], 64),
            (&[5; 100], 51),
            (&[128, 128, 1], 2),
            (&[200, 100], 1),
            (&[1_024, 1], 1),
            (&[1, 1_024], 1),
        ] {
            let calls = waiting(&state, demands);
            assert_eq!(batch_len(&calls), expected, "{demands:?}");
            let taken = calls.len();
            state.take_waiting(1_000, Instant::now());
            assert!(taken <= 100);
        }

        assert_eq!(waiting(&state, &[256; 10]).len(), 2, "a round");
    });
}
