//! Three replicas on one Redis behind one nginx, as on `docs/three-replicas.md`, restarted one by
//! one under load: no client notices, and every admitted request is counted once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use testkit::ports::Port;
use testkit::reverse_proxy::{self, Proxy, Upstream};
use testkit::servers::{Flavor, Server};
use testkit::wait;

use crate::deploy::{self, put};
use crate::harness::{PATIENCE, Tollgate};

const CLIENTS: usize = 6;
const REPLICAS: usize = 3;
/// Requests that are answered before each step.
const REQUESTS_PER_STEP: u64 = 150;
const PAGE: &str = include_str!("../../../../docs/three-replicas.md");

/// The first block of the page that begins with this text.
fn block(beginning: &str) -> &'static str {
    let mut blocks = PAGE.split("```").skip(1).step_by(2);
    let bodies = blocks.find_map(|block| {
        let body = block.split_once('\n')?.1;
        body.starts_with(beginning).then_some(body)
    });
    bodies.expect("the page has this block")
}

fn config(redis: &Server) -> String {
    let config = put(block("version: 1"), "redis://10.0.0.5:6379", &redis.url());
    // No request is denied, and a slow machine causes no fallback.
    let config = put(&config, "limit: 600", "limit: 1000000");
    let config = put(&config, "window: 1m", "window: 1h");
    put(&config, "timeout: 10ms", "timeout: 5s")
}

fn start(config: &str, port: &Port) -> Tollgate {
    Tollgate::with(config, &["--http", &port.addr().to_string()], &[])
}

/// nginx with the file of `deploy/` and the upstream of the page.
fn nginx(ports: &[Port], app: &Upstream) -> Proxy {
    // A slow machine causes no retry, which would count a request twice.
    Proxy::nginx(nginx_file(&deploy::patient(&deploy::nginx()), ports))
        .set("app", app.addr())
        .start()
}

/// This file of nginx with the upstream of the page, at these ports.
pub(crate) fn nginx_file(file: &str, ports: &[Port]) -> String {
    let mut upstream = block("upstream tollgate {").to_owned();
    for (number, port) in ports.iter().enumerate() {
        let address = format!("127.0.0.1:1808{}", number + 1);
        upstream = put(&upstream, &address, &port.addr().to_string());
    }

    let (head, rest) = file.split_once("upstream tollgate {").expect("an upstream");
    let (_, rest) = rest.split_once("}\n").expect("its end");
    format!("{head}{upstream}{rest}")
}

/// What the clients found.
#[derive(Default)]
struct ClientCounts {
    answered: AtomicU64,
    is_done: AtomicBool,
}

impl ClientCounts {
    /// Requests until the end. Every response must come from the application, and must have been
    /// counted by a replica: a request that passes unchecked has no rate limit headers.
    fn request(&self, nginx: &Proxy) -> Result<(), String> {
        while !self.is_done.load(Relaxed) {
            let answer = reverse_proxy::get(nginx.addr(), "/pages/1", &[]);
            if answer.status != 200 || answer.header("x-ratelimit-limit").is_none() {
                return Err(format!("{answer:?}"));
            }
            self.answered.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Waits until the clients have got some more responses.
    fn wait_for_more(&self) {
        let goal = self.answered.load(Relaxed) + REQUESTS_PER_STEP;
        wait::until_true(PATIENCE, "load", || {
            self.is_done.load(Relaxed) || self.answered.load(Relaxed) >= goal
        });
    }
}

/// The units that the limit has counted for the address of the clients, in this hour and the one
/// before.
fn counted(service: &Tollgate) -> u64 {
    let path = "/admin/keys?limit=per-address&client_ip=127.0.0.1";
    let answer = reverse_proxy::get(service.admin, path, &[]);
    let body: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    let number = |name: &str| body[name].as_u64().expect("a number");
    number("current") + number("previous")
}

/// Whether a replica has decided requests since it was started.
fn has_decided(replica: &Tollgate) -> bool {
    let answer = reverse_proxy::get(replica.admin, "/admin/limits", &[]);
    let body: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    body["limits"][0]["outcomes"]["allowed"].as_u64() > Some(0)
}

#[test]
fn restarting_replicas_one_by_one_loses_nothing() {
    let redis = Server::start(Flavor::Redis);
    let config = config(&redis);
    let ports: Vec<Port> = (0..REPLICAS).map(|_| Port::reserve()).collect();
    let mut replicas: Vec<_> = ports.iter().map(|port| start(&config, port)).collect();
    let app = Upstream::start();
    let nginx = nginx(&ports, &app);

    let counts = ClientCounts::default();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let result = counts.request(&nginx);
                    counts.is_done.store(true, Relaxed);
                    result
                })
            })
            .collect();

        for (replica, port) in replicas.iter_mut().zip(&ports) {
            counts.wait_for_more();
            replica.signal("TERM");
            assert!(replica.wait_for_exit().success(), "{}", replica.log());
            *replica = start(&config, port);
            // nginx asks it again after `fail_timeout`. Before that, the others are needed.
            wait::until_true(PATIENCE, "nginx to use the replica again", || {
                counts.is_done.load(Relaxed) || has_decided(replica)
            });
        }
        counts.wait_for_more();
        counts.is_done.store(true, Relaxed);
        for client in clients {
            let result = client.join().expect("no client panics");
            assert_eq!(result, Ok(()), "{}", nginx.log());
        }
    });

    let answered = counts.answered.load(Relaxed);
    assert_eq!(counted(&replicas[0]), answered, "every request counts once");
    assert_eq!(app.answered(), answered);
}
