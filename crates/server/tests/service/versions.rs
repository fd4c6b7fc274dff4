//! Replicas of different versions on one store: they lack fields that others have, or have more.

use serde_json::{Value, json};
use testkit::reverse_proxy;
use testkit::servers::{Client, Flavor, Reply, Server};
use testkit::wait;

use crate::harness::{PATIENCE, Tollgate};

/// Writes a record as `records.lua` does: when it expires, and its text; and another revision.
const PUT: &str = "local now = redis.call('TIME'); \
    local at = now[1] * 1000000 + now[2] + 60000000; \
    redis.call('HSET', KEYS[1], '', ARGV[1], ARGV[2], struct.pack('<d', at) .. ARGV[3]); \
    redis.call('ZADD', KEYS[2], string.format('%.0f', at), ARGV[2])";

/// The shared records of a group.
struct RecordKeys {
    client: Client,
    hash: Vec<u8>,
    expiries: Vec<u8>,
    puts: u64,
}

impl RecordKeys {
    /// Waits until a replica has written a record of the group.
    fn wait_for(server: &Server, group: &str) -> Self {
        let has_group = |key: &Vec<u8>| {
            let mut windows = key.windows(group.len());
            windows.any(|part| part == group.as_bytes())
        };
        let mut client = server.client();
        let (hash, expiries) = wait::until(PATIENCE, group, || {
            let keys: Vec<Vec<u8>> = server.keys().into_iter().filter(has_group).collect();
            let mut of_type = |kind: &str| {
                let is_kind = |key: &&Vec<u8>| {
                    let reply = client
                        .call_bytes(&[b"TYPE", key])
                        .expect("the server replies");
                    reply.as_str() == Some(kind)
                };
                keys.iter().find(is_kind).cloned()
            };
            of_type("hash").zip(of_type("zset"))
        });
        Self {
            client,
            hash,
            expiries,
            puts: 0,
        }
    }

    fn put(&mut self, id: &str, text: &str) {
        self.puts += 1;
        let revision = format!("{:016}", self.puts);
        let words: [&[u8]; 8] = [
            b"EVAL",
            PUT.as_bytes(),
            b"2",
            &self.hash,
            &self.expiries,
            revision.as_bytes(),
            id.as_bytes(),
            text.as_bytes(),
        ];
        let reply = self.client.call_bytes(&words).expect("the server replies");
        assert_eq!(reply.error(), None);
    }

    /// The texts of all records with their ids.
    fn texts(&mut self) -> Vec<(String, Value)> {
        let words: [&[u8]; 2] = [b"HGETALL", &self.hash];
        let reply = self.client.call_bytes(&words).expect("the server replies");
        let text = |reply: &Reply| reply.as_bytes().unwrap_or_default().to_vec();
        let pairs = reply.items().chunks(2).filter_map(|pair| {
            let id = String::from_utf8(text(&pair[0])).ok()?;
            // The time at which the record expires is in front of its text.
            let json = serde_json::from_slice(text(&pair[1]).get(8..)?).ok()?;
            Some((id, json))
        });
        pairs.collect()
    }
}

fn replica(server: &Server) -> Tollgate {
    let yaml = format!(
        "store: {{type: redis, endpoints: ['{}'], timeout: 250ms}}\n\
         limits: [{{name: api, key: [user], algorithm: sliding_log, limit: 5, window: 1h}}]",
        server.url()
    );
    Tollgate::with(&yaml, &["--name", "this"], &[])
}

fn get(service: &Tollgate, path: &str) -> Value {
    let answer = reverse_proxy::get(service.admin, path, &[]);
    serde_json::from_str(&answer.text()).expect("JSON")
}

#[test]
fn heartbeats_of_other_versions_are_read() {
    let server = Server::start(Flavor::Redis);
    let service = replica(&server);
    let mut records = RecordKeys::wait_for(&server, "fleet");
    let config = get(&service, "/admin/fleet")["replicas"][0]["config"].clone();

    records.put(
        "old",
        &json!({ "name": "old", "config": config }).to_string(),
    );
    let newer = json!({
        "name": "newer", "version": "9.0.0", "config": config, "zone": "b",
        "decisions": { "allowed": 7, "queued": 2 },
    });
    records.put("newer", &newer.to_string());
    records.put("garbled", "not JSON");

    let fleet = wait::until(PATIENCE, "both replicas", || {
        Some(get(&service, "/admin/fleet")).filter(|fleet| fleet["seen"] == 3)
    });
    let named = |name: &str| {
        let replicas = fleet["replicas"].as_array().expect("a list").iter();
        let mut found = replicas.filter(|replica| replica["name"] == name);
        found.next().expect("it is listed").clone()
    };
    assert_eq!(named("old")["version"], "");
    assert_eq!(named("newer")["decisions"]["allowed"], 7);
    let kinds: Vec<&Value> = fleet["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|finding| &finding["kind"])
        .collect();
    assert!(kinds.contains(&&json!("versions_differ")), "{fleet}");
    assert!(!kinds.contains(&&json!("configurations_differ")), "{fleet}");
}

#[test]
fn actions_of_other_versions_are_read_or_ignored() {
    let server = Server::start(Flavor::Redis);
    let service = replica(&server);
    let body = json!({
        "limit": "api", "key": { "user": "ann" }, "for": "1h", "reason": "first", "by": "ops",
    });
    let answer = reverse_proxy::send(
        service.admin,
        "POST",
        "/admin/blocks",
        &[("content-type", "application/json")],
        body.to_string().as_bytes(),
    );
    assert_eq!(answer.status, 200, "{}", answer.text());

    // The same action with a member that this version does not know, and an action of another kind.
    let mut records = RecordKeys::wait_for(&server, "actions");
    let (id, mut record) = records.texts().into_iter().next().expect("one action");
    record["reason"] = "second".into();
    let created_at = record["created_at_ms"].as_u64().expect("a time");
    record["created_at_ms"] = (created_at + 1).into();
    record["ticket"] = "OPS-7".into();
    records.put(&id, &record.to_string());
    record["kind"] = "redirect".into();
    records.put("other", &record.to_string());

    let blocks = wait::until(PATIENCE, "the action to be read again", || {
        let blocks = get(&service, "/admin/blocks");
        (blocks["blocks"][0]["reason"] == "second").then_some(blocks)
    });
    assert_eq!(
        blocks["blocks"].as_array().map(Vec::len),
        Some(1),
        "{blocks}"
    );
    let denied = service.check(r#"{"attributes": {"user": "ann"}}"#);
    assert_eq!(denied.status, 429, "the action is in force");
}
