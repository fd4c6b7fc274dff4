//! The servers for tests: each kind starts, responds and can be broken, with both flavors.

#![expect(clippy::unwrap_used, reason = "all code here is test code")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::servers::{Client, Cluster, Flavor, Reply, Sentinels, Server};
use testkit::wait;

/// Reached only if something is broken.
const LIMIT: Duration = Duration::from_secs(30);
/// How long a test waits for a reply that must not arrive.
const SILENCE: Duration = Duration::from_millis(100);

/// Defines each test once for each flavor.
macro_rules! on_both_flavors {
    ($($test:ident),+ $(,)?) => {
        mod redis {
            $(#[test] fn $test() { super::$test(super::Flavor::Redis); })+
        }
        mod valkey {
            $(#[test] fn $test() { super::$test(super::Flavor::Valkey); })+
        }
    };
}

on_both_flavors![
    a_server_responds_and_leaves_nothing_behind,
    a_frozen_server_answers_when_it_is_thawed,
    a_restarted_server_is_empty_and_where_it_was,
    a_server_requires_its_password,
    a_test_keeps_its_access_when_the_default_user_loses_it,
    every_key_is_found_and_those_without_expiry_are_told_apart,
    many_servers_start_at_once,
    an_invalid_configuration_is_reported,
    sentinels_replace_a_primary_that_was_killed,
    a_cluster_replaces_a_primary_that_was_killed,
    a_slot_moves_with_its_keys,
];

fn is_refused(addr: SocketAddr) -> bool {
    TcpStream::connect(addr)
        .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
}

/// Whether a process exists and has not exited. A zombie has exited.
fn process_exists(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn a_server_responds_and_leaves_nothing_behind(flavor: Flavor) {
    let server = Server::builder(flavor).config("maxmemory", "3mb").start();
    assert!(server.command(&["SET", "a", "1"]).is_ok());
    assert_eq!(server.url(), format!("redis://{}", server.addr()));

    let mut client = Client::connect(server.addr()).unwrap();
    assert_eq!(client.call(&["GET", "a"]).unwrap().as_int(), Some(1));
    let refused = client.call(&["LPUSH", "a", "x"]).unwrap();
    assert!(
        refused.error().unwrap().starts_with("WRONGTYPE"),
        "{refused:?}"
    );
    let memory = client.call(&["CONFIG", "GET", "maxmemory"]).unwrap();
    assert_eq!(memory.items()[1].as_int(), Some(3 * 1024 * 1024));

    let (addr, pid, directory) = (server.addr(), server.pid(), server.directory().to_owned());
    assert!(directory.is_dir() && process_exists(pid));
    drop(server);
    assert!(!directory.exists() && !process_exists(pid) && is_refused(addr));
}

fn a_frozen_server_answers_when_it_is_thawed(flavor: Flavor) {
    let server = Server::start(flavor);
    let mut client = Client::connect(server.addr()).unwrap();
    client.set_timeout(SILENCE).unwrap();
    server.freeze();
    assert!(server.is_frozen() && server.is_running());
    assert!(client.call(&["INCR", "a"]).is_err());

    server.thaw();
    assert!(!server.is_frozen());
    client.set_timeout(LIMIT).unwrap();
    assert_eq!(client.receive().unwrap(), Reply::Int(1));
}

fn a_restarted_server_is_empty_and_where_it_was(flavor: Flavor) {
    let server = Server::builder(flavor).password("secret").start();
    let (addr, pid) = (server.addr(), server.pid());
    server.command(&["SET", "a", "1"]);
    // Data on disk must not be loaded again.
    assert!(server.command(&["SAVE"]).is_ok());

    server.freeze();
    server.kill();
    assert!(!server.is_running() && !server.is_frozen() && is_refused(addr));

    server.restart();
    assert!(server.is_running());
    assert_eq!(server.addr(), addr);
    assert_ne!(server.pid(), pid);
    assert!(server.keys().is_empty());
    let refused = Client::connect(addr).unwrap().call(&["PING"]).unwrap();
    assert!(
        refused
            .error()
            .is_some_and(|error| error.starts_with("NOAUTH")),
        "{refused:?}"
    );
}

fn a_server_requires_its_password(flavor: Flavor) {
    let server = Server::builder(flavor).password("p@ss/word").start();
    assert_eq!(
        server.url(),
        format!("redis://:p%40ss%2Fword@{}", server.addr())
    );
    let mut client = Client::connect(server.addr()).unwrap();
    assert!(
        client
            .call(&["AUTH", "wrong"])
            .unwrap()
            .error()
            .unwrap()
            .starts_with("WRONGPASS")
    );
    assert!(client.call(&["AUTH", "p@ss/word"]).unwrap().is_ok());

    let server = Server::builder(flavor)
        .user("ann", "secret", "~a:* +get +set")
        .start();
    assert_eq!(
        server.url(),
        format!("redis://ann:secret@{}", server.addr())
    );
    let mut client = Client::connect(server.addr()).unwrap();
    assert!(client.call(&["AUTH", "ann", "secret"]).unwrap().is_ok());
    assert!(client.call(&["SET", "a:1", "x"]).unwrap().is_ok());
    for forbidden in [["SET", "b", "x"].as_slice(), &["INCR", "a:2"]] {
        let reply = client.call(forbidden).unwrap();
        assert!(
            reply
                .error()
                .is_some_and(|error| error.starts_with("NOPERM")),
            "{reply:?}"
        );
    }
}

fn a_test_keeps_its_access_when_the_default_user_loses_it(flavor: Flavor) {
    let server = Server::builder(flavor).password("old").start();
    assert!(
        server
            .command(&["CONFIG", "SET", "requirepass", "new"])
            .is_ok()
    );
    assert!(
        server
            .command(&["ACL", "SETUSER", "default", "-eval"])
            .is_ok()
    );
    let mut client = Client::connect(server.addr()).unwrap();
    assert!(client.call(&["AUTH", "old"]).unwrap().error().is_some());
    assert!(client.call(&["AUTH", "new"]).unwrap().is_ok());
    assert!(
        client
            .call(&["EVAL", "return 1", "0"])
            .unwrap()
            .error()
            .is_some()
    );
    assert_eq!(server.command(&["EVAL", "return 1", "0"]), Reply::Int(1));
}

fn every_key_is_found_and_those_without_expiry_are_told_apart(flavor: Flavor) {
    let server = Server::start(flavor);
    let mut client = server.client();
    for number in 0..2_500_u32 {
        client
            .send(&[b"SET", format!("k{number}").as_bytes(), b"x", b"EX", b"100"])
            .unwrap();
    }
    let odd: &[u8] = b"\xff\r\n\0";
    client.send(&[b"SET", odd, b"x"]).unwrap();
    for _ in 0..2_501 {
        assert!(client.receive().unwrap().is_ok());
    }
    assert_eq!(server.keys().len(), 2_501);
    assert_eq!(server.immortal_keys(), [odd]);
}

fn many_servers_start_at_once(flavor: Flavor) {
    let servers: Vec<Server> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| Server::start(flavor)))
            .collect();
        starts
            .into_iter()
            .map(|start| start.join().unwrap())
            .collect()
    });
    for (number, server) in servers.iter().enumerate() {
        server.command(&["SET", "who", &number.to_string()]);
    }
    for (number, server) in servers.iter().enumerate() {
        let mut client = Client::connect(server.addr()).unwrap();
        assert_eq!(
            client.call(&["GET", "who"]).unwrap().as_str(),
            Some(number.to_string().as_str())
        );
    }
}

fn an_invalid_configuration_is_reported(flavor: Flavor) {
    let start = || {
        Server::builder(flavor)
            .config("no-such-setting", "1")
            .start()
    };
    let reason = *std::panic::catch_unwind(start)
        .unwrap_err()
        .downcast::<String>()
        .unwrap();
    assert!(
        reason.contains("did not start") && reason.contains("no-such-setting"),
        "{reason}"
    );
}

fn sentinels_replace_a_primary_that_was_killed(flavor: Flavor) {
    let all = Sentinels::start(flavor);
    let (primary, replica) = (all.primary(), all.replica());
    assert_eq!(all.current_primary().unwrap().addr(), primary.addr());
    assert_eq!(
        all.urls(),
        all.sentinels().iter().map(Server::url).collect::<Vec<_>>()
    );
    let mut client = Client::connect(all.sentinels()[2].addr()).unwrap();
    let known = client
        .call(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", all.master_name()])
        .unwrap();
    assert_eq!(
        known.items()[1].as_int(),
        Some(i64::from(primary.addr().port()))
    );

    primary.command(&["SET", "a", "1"]);
    wait::until_true(LIMIT, "the replica to have the key", || {
        replica.command(&["GET", "a"]).as_int() == Some(1)
    });
    assert!(
        replica
            .command(&["SET", "a", "2"])
            .error()
            .unwrap()
            .starts_with("READONLY")
    );

    primary.kill();
    wait::until_true(LIMIT, "the fail-over", || {
        all.current_primary()
            .is_some_and(|server| server.addr() == replica.addr())
            && replica.command(&["SET", "a", "2"]).is_ok()
    });
    primary.restart();
    wait::until_true(LIMIT, "the old primary to follow the new one", || {
        primary.command(&["GET", "a"]).as_int() == Some(2)
    });
}

fn a_cluster_replaces_a_primary_that_was_killed(flavor: Flavor) {
    let cluster = Cluster::start(flavor, 3, 1);
    assert_eq!((cluster.nodes().len(), cluster.urls().len()), (6, 6));
    let slot = cluster.slot_of("a");
    assert_eq!(slot, 15_495);
    let primary = cluster.primary_of_slot(slot);
    assert_eq!(primary.addr(), cluster.nodes()[2].addr());
    assert!(primary.command(&["SET", "a", "1"]).is_ok());
    let moved = cluster.primary_of_slot(0).command(&["GET", "a"]);
    assert_eq!(
        moved,
        Reply::Error(format!("MOVED {slot} {}", primary.addr()))
    );

    let heirs = cluster.replicas_of(primary);
    assert_eq!(heirs.len(), 1);
    wait::until_true(LIMIT, "the replica to have the key", || {
        heirs[0].command(&["DBSIZE"]).as_int() == Some(1)
    });
    primary.kill();
    wait::until_true(LIMIT, "the fail-over", || {
        cluster.primary_of_slot(slot).addr() == heirs[0].addr()
    });
    wait::until_true(LIMIT, "the new primary to serve", || {
        heirs[0].command(&["GET", "a"]).as_int() == Some(1)
    });

    // A frozen node is not queried, so it does not block the test.
    cluster.primary_of_slot(0).freeze();
    assert_eq!(cluster.primary_of_slot(slot).addr(), heirs[0].addr());
    cluster.primary_of_slot(0).thaw();

    primary.restart();
    wait::until_true(LIMIT, "the old primary to follow the new one", || {
        let followers = cluster.replicas_of(heirs[0]);
        followers
            .iter()
            .any(|follower| follower.addr() == primary.addr())
    });
}

fn a_slot_moves_with_its_keys(flavor: Flavor) {
    let cluster = Cluster::builder(flavor)
        .primaries(2)
        .config("cluster-require-full-coverage", "yes")
        .start();
    let coverage = cluster.nodes()[1].command(&["CONFIG", "GET", "cluster-require-full-coverage"]);
    assert_eq!(coverage.items()[1].as_str(), Some("yes"));

    let slot = cluster.slot_of("{a}");
    let (from, to) = (cluster.primary_of_slot(slot), cluster.primary_of_slot(0));
    assert_ne!(from.addr(), to.addr());
    for number in 0..250 {
        assert!(
            from.command(&["SET", &format!("{{a}}{number}"), "x", "EX", "100"])
                .is_ok()
        );
    }

    cluster.begin_move_slot(slot, to);
    assert_eq!(from.command(&["GET", "{a}7"]).as_str(), Some("x"));
    assert_eq!(
        from.command(&["GET", "{a}new"]),
        Reply::Error(format!("ASK {slot} {}", to.addr()))
    );
    assert_eq!(
        to.command(&["GET", "{a}7"]),
        Reply::Error(format!("MOVED {slot} {}", from.addr()))
    );

    cluster.finish_move_slot(slot, to);
    assert_eq!(cluster.primary_of_slot(slot).addr(), to.addr());
    assert_eq!(to.command(&["GET", "{a}7"]).as_str(), Some("x"));
    assert_eq!((from.keys().len(), to.keys().len()), (0, 250));
    assert!(to.immortal_keys().is_empty());

    cluster.move_slot(slot, from);
    assert_eq!((from.keys().len(), to.keys().len()), (250, 0));
}

/// The Valkey that is installed for tests is built without TLS.
#[test]
fn a_server_with_tls_shows_a_certificate_of_its_authority() {
    let server = Server::builder(Flavor::Redis)
        .tls()
        .password("secret")
        .start();
    assert_eq!(server.url(), format!("rediss://:secret@{}", server.addr()));
    assert!(server.command(&["PING"]).error().is_none());
    let plain = Client::connect(server.addr()).unwrap().call(&["PING"]);
    assert!(plain.is_err(), "the port answers without TLS: {plain:?}");

    let authority = server.directory().join("trusted.pem");
    std::fs::write(&authority, server.ca_pem()).unwrap();
    let mut openssl = Command::new("openssl");
    openssl.args([
        "s_client",
        "-quiet",
        "-verify_return_error",
        "-verify_ip",
        "127.0.0.1",
    ]);
    openssl
        .arg("-connect")
        .arg(server.addr().to_string())
        .arg("-CAfile")
        .arg(&authority);
    let openssl = openssl
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut openssl = openssl.spawn().unwrap();
    openssl
        .stdin
        .take()
        .unwrap()
        .write_all(b"AUTH secret\r\nPING\r\nQUIT\r\n")
        .unwrap();
    let answer = openssl.wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&answer.stdout),
        "+OK\r\n+PONG\r\n+OK\r\n"
    );
}

#[test]
fn a_port_can_be_chosen() {
    let addr = Server::start(Flavor::Redis).addr();
    let server = Server::builder(Flavor::Redis).port(addr.port()).start();
    assert_eq!(server.addr(), addr);
}

#[test]
fn a_server_does_not_outlive_a_test_that_is_killed() {
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args([
        "--ignored",
        "--exact",
        "stays_until_it_is_killed",
        "--nocapture",
    ]);
    let mut test = test.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(test.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let pid = lines.find_map(|line| line.split_once("server ").map(|(_, pid)| pid.to_owned()));
    let pid: u32 = pid.unwrap().parse().unwrap();
    assert!(process_exists(pid));
    test.kill().unwrap();
    test.wait().unwrap();
    wait::until_true(LIMIT, "the server to end", || !process_exists(pid));
}

#[test]
#[ignore = "the test above starts it and kills it"]
fn stays_until_it_is_killed() {
    let server = Server::start(Flavor::Redis);
    println!("\nserver {}", server.pid());
    wait::until_true(LIMIT, "the end", || false);
}
