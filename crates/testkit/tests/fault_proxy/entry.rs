//! Faults that affect new connections.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use testkit::fault_proxy::Fault;
use testkit::wait;

use crate::{
    LIMIT, connect, connect_error, connect_raw, is_silent, ping, pong, read_to_end, start,
};

#[test]
fn new_connections_stall_and_others_do_not() {
    let (_server, proxy) = start();
    let mut old = connect(&proxy);
    ping(&mut old);
    proxy.set(Fault::StallNew);
    let mut new = connect(&proxy);
    assert!(is_silent(&mut new, &["PING"]));
    ping(&mut old);
    assert_eq!(proxy.connections(), 2);
    proxy.clear();
    assert_eq!(new.receive().unwrap(), pong());
}

#[test]
fn new_connections_are_refused_and_others_are_not() {
    let (_server, proxy) = start();
    let mut old = connect(&proxy);
    ping(&mut old);
    proxy.set(Fault::Refuse);
    assert_eq!(
        connect_error(proxy.addr()),
        Some(ErrorKind::ConnectionRefused)
    );
    ping(&mut old);
    proxy.clear();
    ping(&mut connect(&proxy));
    ping(&mut old);
}

#[test]
#[cfg(target_os = "linux")]
fn attempts_to_connect_get_no_response() {
    let (_server, proxy) = start();
    let mut old = connect(&proxy);
    ping(&mut old);
    proxy.set(Fault::DropSyn);
    for _ in 0..3 {
        assert_eq!(connect_error(proxy.addr()), Some(ErrorKind::TimedOut));
    }
    ping(&mut old);
    proxy.clear();
    ping(&mut connect(&proxy));
}

#[test]
fn a_flapping_proxy_comes_and_goes() {
    let (_server, proxy) = start();
    let mut old = connect_raw(&proxy);
    proxy.set(Fault::Flap {
        every: Duration::from_millis(40),
    });
    assert_eq!(
        read_to_end(&mut old),
        (vec![], Some(ErrorKind::ConnectionReset))
    );
    for _ in 0..3 {
        let mut stream = wait::until(LIMIT, "the proxy to come", || {
            TcpStream::connect(proxy.addr()).ok()
        });
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        assert_eq!(read_to_end(&mut stream).1, Some(ErrorKind::ConnectionReset));
        wait::until_true(LIMIT, "the proxy to go", || {
            connect_error(proxy.addr()) == Some(ErrorKind::ConnectionRefused)
        });
    }
    proxy.clear();
    let mut client = connect(&proxy);
    ping(&mut client);
    // One phase later nothing has happened to it.
    assert!(is_silent(&mut client, &["BLPOP", "nothing", "0"]));
    assert_eq!(proxy.connections(), 1);
}
