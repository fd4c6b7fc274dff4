//! The proxy without faults, with several faults, and its end.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;

use testkit::fault_proxy::Fault;
use testkit::servers::{Flavor, Server};
use testkit::wait;

use crate::{DELAY, LIMIT, connect, connect_error, connect_raw, ping, read_to_end, start};

#[test]
fn without_faults_everything_passes_in_both_directions() {
    let (server, proxy) = start();
    let mut client = connect(&proxy);
    let large = vec![b'x'; 3 * 1024 * 1024];
    assert!(
        client
            .call_bytes(&[b"SET", b"large", &large])
            .unwrap()
            .is_ok()
    );
    assert_eq!(
        client.call(&["GET", "large"]).unwrap().as_bytes(),
        Some(large.as_slice())
    );
    assert_eq!(server.keys(), [b"large"]);
    let _second = connect_raw(&proxy);
    assert_eq!((proxy.connections(), proxy.accepted()), (2, 2));
}

#[test]
fn the_end_of_either_side_is_passed_on() {
    let (server, proxy) = start();
    let client = connect_raw(&proxy);
    drop(client);
    wait::until_true(LIMIT, "the connection to end", || proxy.connections() == 0);

    let mut client = connect_raw(&proxy);
    client.write_all(b"QUIT\r\n").unwrap();
    assert_eq!(read_to_end(&mut client), (b"+OK\r\n".to_vec(), None));
    drop(client);

    let mut client = connect(&proxy);
    ping(&mut client);
    server.kill();
    assert!(client.receive().is_err());
    // The proxy still listens; without a server it closes the connection.
    let (bytes, _) = read_to_end(&mut TcpStream::connect(proxy.addr()).unwrap());
    assert!(bytes.is_empty());
    server.restart();
    ping(&mut connect(&proxy));
}

#[test]
fn a_cut_resets_every_connection_at_once() {
    let (_server, proxy) = start();
    let mut streams: Vec<TcpStream> = (0..5).map(|_| connect_raw(&proxy)).collect();
    assert_eq!(proxy.connections(), 5);
    proxy.cut();
    assert_eq!(proxy.connections(), 0);
    for stream in &mut streams {
        assert_eq!(
            read_to_end(stream),
            (vec![], Some(ErrorKind::ConnectionReset))
        );
    }
    ping(&mut connect(&proxy));
}

#[test]
fn a_cut_reaches_those_that_are_held_or_blocked() {
    let (server, proxy) = start();
    let mut blocked = connect_raw(&proxy);
    server.command(&["SET", "large", &"x".repeat(20 * 1024 * 1024)]);
    // The reply is not read, so the proxy blocks while writing it.
    blocked.write_all(b"GET large\r\n").unwrap();
    blocked.peek(&mut [0]).unwrap();
    proxy.set(Fault::StallNew);
    let mut stalled = TcpStream::connect(proxy.addr()).unwrap();
    wait::until_true(LIMIT, "both connections", || proxy.connections() == 2);
    proxy.set(Fault::BlackHole);
    proxy.cut();
    assert_eq!(proxy.connections(), 0);
    assert_eq!(
        read_to_end(&mut stalled),
        (vec![], Some(ErrorKind::ConnectionReset))
    );
    assert_eq!(
        read_to_end(&mut blocked).1,
        Some(ErrorKind::ConnectionReset)
    );
}

#[test]
fn another_target_is_for_new_connections() {
    let (first, proxy) = start();
    let second = Server::start(Flavor::Redis);
    first.command(&["SET", "who", "first"]);
    second.command(&["SET", "who", "second"]);
    let mut old = connect(&proxy);
    assert_eq!(old.call(&["GET", "who"]).unwrap().as_str(), Some("first"));
    proxy.retarget(second.addr());
    assert_eq!(old.call(&["GET", "who"]).unwrap().as_str(), Some("first"));
    assert_eq!(
        connect(&proxy).call(&["GET", "who"]).unwrap().as_str(),
        Some("second")
    );
}

#[test]
fn faults_add_up() {
    let (_server, proxy) = start();
    let mut old = connect(&proxy);
    ping(&mut old);
    proxy.set(Fault::DelayReplies(DELAY));
    proxy.add(Fault::Refuse);
    let start = wait::now();
    ping(&mut old);
    assert!(start.elapsed() >= DELAY);
    assert_eq!(
        connect_error(proxy.addr()),
        Some(ErrorKind::ConnectionRefused)
    );
}

/// The threads of a proxy have its port in their name.
#[cfg(target_os = "linux")]
fn threads_named(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(Result::ok);
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|found| found.trim_end() == name).count()
}

#[test]
#[cfg(target_os = "linux")]
fn dropping_a_proxy_ends_its_threads_and_connections() {
    for fault in [
        Fault::Slice,
        Fault::BlackHole,
        Fault::DropSyn,
        Fault::Flap { every: LIMIT },
    ] {
        let (_server, proxy) = start();
        let name = format!("proxy-{}", proxy.addr().port());
        let mut open = connect_raw(&proxy);
        proxy.set(Fault::StallNew);
        let mut stalled = TcpStream::connect(proxy.addr()).unwrap();
        wait::until_true(LIMIT, "both connections", || proxy.connections() == 2);
        assert!(threads_named(&name) >= 3);
        proxy.add(fault);
        let addr = proxy.addr();
        drop(proxy);
        assert_eq!(connect_error(addr), Some(ErrorKind::ConnectionRefused));
        assert_eq!(read_to_end(&mut open).1, Some(ErrorKind::ConnectionReset));
        assert_eq!(
            read_to_end(&mut stalled).1,
            Some(ErrorKind::ConnectionReset)
        );
        wait::until_true(LIMIT, "the threads to end", || threads_named(&name) == 0);
    }
}
