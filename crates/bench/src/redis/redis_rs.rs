//! redis-rs with default settings: one multiplexed connection shared by all callers, one call for
//! each decision.

use std::io;
use std::sync::Arc;

use redis_rs::Script;
use redis_rs::aio::MultiplexedConnection;

use super::check_script;
use super::target::Target;
use crate::harness::callers::{Caller, ConnectedCallers};

pub(super) struct RedisRsCaller {
    connection: MultiplexedConnection,
    shared: Arc<SharedConnection>,
}

struct SharedConnection {
    script: Script,
    keys: Vec<Vec<u8>>,
    arguments: [Vec<u8>; 2],
}

/// Callers that share one connection.
pub(super) async fn connect(
    target: &Target,
    keys: u32,
    callers: usize,
) -> io::Result<ConnectedCallers<RedisRsCaller>> {
    let client = redis_rs::Client::open(target.server.url()).map_err(io::Error::other)?;
    let connection = client
        .get_multiplexed_async_connection()
        .await
        .map_err(io::Error::other)?;
    let shared = Arc::new(SharedConnection {
        script: Script::new(check_script::script()),
        keys: (0..keys).map(check_script::key).collect(),
        arguments: check_script::arguments(),
    });
    let caller = |_| RedisRsCaller {
        connection: connection.clone(),
        shared: shared.clone(),
    };
    Ok(ConnectedCallers {
        callers: (0..callers).map(caller).collect(),
        calls: None,
    })
}

impl Caller for RedisRsCaller {
    async fn ask(&mut self, key: u32) -> io::Result<()> {
        let SharedConnection {
            script,
            keys,
            arguments: [which, asked],
        } = &*self.shared;
        let mut call = script.key(keys[key as usize].as_slice());
        call.arg(which.as_slice()).arg(asked.as_slice());
        let answer: Vec<u8> = call
            .invoke_async(&mut self.connection)
            .await
            .map_err(io::Error::other)?;
        if check_script::is_allowed_reply(&answer) {
            Ok(())
        } else {
            Err(io::Error::other("the script denied the check"))
        }
    }
}
