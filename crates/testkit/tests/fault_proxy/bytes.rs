//! Faults that affect requests and replies in flight.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use testkit::fault_proxy::Fault;
use testkit::servers::Reply;
use testkit::wait;

use crate::{
    DELAY, LIMIT, SILENCE, connect, connect_raw, is_silent, ping, pong, read_to_end, start,
};

#[test]
fn delays_hold_up_replies_or_requests_but_not_each_other() {
    let (server, proxy) = start();
    let mut client = connect(&proxy);
    ping(&mut client);
    for fault in [Fault::DelayReplies(DELAY), Fault::DelayRequests(DELAY)] {
        proxy.set(fault);
        let start = wait::now();
        ping(&mut client);
        assert!(start.elapsed() >= DELAY, "{fault:?}: {:?}", start.elapsed());
    }

    // Ten replies sent one after another arrive one after another, not each a whole delay after the
    // last.
    let long = 4 * DELAY;
    proxy.set(Fault::DelayReplies(long));
    let start = wait::now();
    for number in 1..=10 {
        client.send(&[b"INCR", b"n"]).unwrap();
        wait::until_true(LIMIT, "the request", || {
            server.command(&["GET", "n"]).as_int() == Some(number)
        });
    }
    for number in 1..=10 {
        assert_eq!(client.receive(), Ok(Reply::Int(number)));
    }
    assert!(start.elapsed() >= long);
    assert!(
        start.elapsed() < 10 * long,
        "replies waited for each other: {:?}",
        start.elapsed()
    );
}

#[test]
fn a_late_reply_arrives_after_the_client_has_given_up() {
    let (_server, proxy) = start();
    let mut client = connect(&proxy);
    proxy.set(Fault::DelayReplies(3 * SILENCE));
    assert!(is_silent(&mut client, &["ECHO", "late"]));
    proxy.clear();
    client.send(&[b"ECHO", b"next"]).unwrap();
    assert_eq!(client.receive().unwrap().as_str(), Some("late"));
    assert_eq!(client.receive().unwrap().as_str(), Some("next"));
}

#[test]
fn the_next_reply_is_cut_and_no_other() {
    let (_server, proxy) = start();
    let (mut first, mut second) = (connect_raw(&proxy), connect_raw(&proxy));
    proxy.set(Fault::CutNextReply { after_bytes: 10 });
    first.write_all(b"PING\r\n").unwrap();
    first.read_exact(&mut [0; 7]).unwrap();
    // Seven of ten bytes have passed, so the cut belongs to this connection.
    second.write_all(b"PING\r\n").unwrap();
    second.read_exact(&mut [0; 7]).unwrap();
    first.write_all(b"ECHO hello\r\n").unwrap();
    assert_eq!(
        read_to_end(&mut first),
        (b"$5\r".to_vec(), Some(ErrorKind::ConnectionReset))
    );
    ping(&mut connect(&proxy));
    // It has happened, and adding another fault does not repeat it.
    proxy.add(Fault::Slice);
    second.write_all(b"QUIT\r\n").unwrap();
    assert_eq!(read_to_end(&mut second), (b"+OK\r\n".to_vec(), None));
}

#[test]
fn every_connection_is_cut_in_its_next_reply() {
    let (server, proxy) = start();
    let mut old = connect_raw(&proxy);
    proxy.set(Fault::CutReplies { after_bytes: 3 });
    let mut new = TcpStream::connect(proxy.addr()).unwrap();
    for stream in [&mut old, &mut new] {
        stream.write_all(b"INCR n\r\n").unwrap();
        assert_eq!(read_to_end(stream).1, Some(ErrorKind::ConnectionReset));
    }
    assert_eq!(server.command(&["GET", "n"]).as_int(), Some(2));
    proxy.set(Fault::CutReplies { after_bytes: 0 });
    let mut new = TcpStream::connect(proxy.addr()).unwrap();
    new.write_all(b"PING\r\n").unwrap();
    assert_eq!(
        read_to_end(&mut new),
        (vec![], Some(ErrorKind::ConnectionReset))
    );
    proxy.clear();
    ping(&mut connect(&proxy));
}

#[test]
fn dropped_replies_are_lost_after_the_server_has_acted() {
    let (server, proxy) = start();
    let (mut old, mut idle) = (connect(&proxy), connect(&proxy));
    ping(&mut idle);
    proxy.set(Fault::DropReplies);
    assert!(is_silent(&mut old, &["INCR", "n"]));
    assert!(is_silent(&mut connect(&proxy), &["INCR", "n"]));
    wait::until_true(LIMIT, "both requests", || {
        server.command(&["GET", "n"]).as_int() == Some(2)
    });
    proxy.clear();
    // A connection that lost a reply would answer the next request with the reply of the one
    // before.
    assert!(old.call(&["PING"]).is_err());
    ping(&mut idle);
}

#[test]
fn replies_are_replaced_by_invalid_bytes() {
    let (server, proxy) = start();
    let cases = [
        (Fault::Garbage, b"\x00\xff".as_slice()),
        (Fault::GiantBulk, b"$999999999999\r\n"),
        (Fault::GiantArray, b"*1000000000\r\n"),
        (
            Fault::ReplaceReplies(b"-LOADING soon\r\n"),
            b"-LOADING soon\r\n",
        ),
    ];
    for (fault, expected) in cases {
        let mut old = connect_raw(&proxy);
        proxy.set(fault);
        let mut new = TcpStream::connect(proxy.addr()).unwrap();
        for stream in [&mut old, &mut new] {
            stream.write_all(b"INCR n\r\n").unwrap();
            let mut found = vec![0; expected.len()];
            stream.read_exact(&mut found).unwrap();
            assert_eq!(found, expected, "{fault:?}");
        }
        proxy.clear();
        assert_eq!(
            read_to_end(&mut old).1,
            Some(ErrorKind::ConnectionReset),
            "{fault:?}"
        );
    }
    assert_eq!(server.command(&["GET", "n"]).as_int(), Some(8));
}

#[test]
fn slices_arrive_in_many_pieces_and_complete() {
    let (_server, proxy) = start();
    let mut client = connect(&proxy);
    let text = "0123456789".repeat(1_000);
    assert!(client.call(&["SET", "text", &text]).unwrap().is_ok());
    proxy.set(Fault::Slice);
    let mut stream = connect_raw(&proxy);
    stream.write_all(b"GET text\r\n").unwrap();
    let (mut found, mut reads) = (Vec::new(), 0);
    let mut buffer = vec![0; 64 * 1024];
    while found.len() < text.len() + b"$10000\r\n\r\n".len() {
        let count = stream.read(&mut buffer).unwrap();
        found.extend_from_slice(&buffer[..count]);
        reads += 1;
    }
    assert_eq!(found, format!("$10000\r\n{text}\r\n").into_bytes());
    // Without the fault it would arrive in one or two pieces.
    assert!(reads > 10, "{reads} reads");
    assert_eq!(
        client.call(&["GET", "text"]).unwrap().as_str(),
        Some(text.as_str())
    );
}

#[test]
fn a_connection_is_throttled_in_both_directions() {
    let (_server, proxy) = start();
    let mut client = connect(&proxy);
    let text = "x".repeat(200);
    proxy.set(Fault::Throttle {
        bytes_per_second: 1_000,
    });
    for words in [["SET", "text", &text].as_slice(), &["GET", "text"]] {
        let start = wait::now();
        assert!(client.call(words).unwrap().error().is_none());
        assert!(
            start.elapsed() >= Duration::from_millis(200),
            "{:?}",
            start.elapsed()
        );
    }
    // Bytes in flight arrive without throttling once the fault is cleared.
    proxy.set(Fault::Throttle {
        bytes_per_second: 1,
    });
    assert!(is_silent(&mut client, &["PING"]));
    proxy.clear();
    assert_eq!(client.receive().unwrap(), pong());
}

#[test]
fn a_black_hole_holds_everything_until_it_is_cleared() {
    let (server, proxy) = start();
    let (mut old, mut cut_off) = (connect(&proxy), connect(&proxy));
    ping(&mut old);
    ping(&mut cut_off);
    proxy.set(Fault::BlackHole);
    let mut new = connect(&proxy);
    assert!(is_silent(&mut old, &["INCR", "n"]));
    assert!(is_silent(&mut new, &["INCR", "n"]));
    assert!(server.keys().is_empty(), "a request came through");
    // Not even the end of the server is forwarded.
    assert!(
        server
            .command(&["CLIENT", "KILL", "TYPE", "normal"])
            .as_int()
            >= Some(2)
    );
    assert!(is_silent(&mut cut_off, &["PING"]));

    proxy.clear();
    assert!(cut_off.receive().is_err() && old.receive().is_err());
    assert_eq!(new.receive(), Ok(Reply::Int(1)));
}
