//! redis-rs as it comes: one multiplexed connection that all callers share, one call for each
//! decision.

use std::io;
use std::sync::Arc;

use redis_rs::Script;
use redis_rs::aio::MultiplexedConnection;

use super::super::entrant::{Caller, Connected};
use super::super::question;
use super::super::target::Target;

pub(super) struct Asking {
    connection: MultiplexedConnection,
    shared: Arc<Shared>,
}

struct Shared {
    script: Script,
    keys: Vec<Vec<u8>>,
    arguments: [Vec<u8>; 2],
}

/// Callers of one connection.
pub(super) async fn connect(
    target: &Target,
    keys: u32,
    callers: usize,
) -> io::Result<Connected<Asking>> {
    let client = redis_rs::Client::open(target.server.url()).map_err(io::Error::other)?;
    let connection = client
        .get_multiplexed_async_connection()
        .await
        .map_err(io::Error::other)?;
    let shared = Arc::new(Shared {
        script: Script::new(question::script()),
        keys: (0..keys).map(question::key).collect(),
        arguments: question::arguments(),
    });
    let caller = |_| Asking {
        connection: connection.clone(),
        shared: shared.clone(),
    };
    Ok(Connected {
        callers: (0..callers).map(caller).collect(),
        calls: None,
    })
}

impl Caller for Asking {
    async fn ask(&mut self, key: u32) -> io::Result<()> {
        let Shared {
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
        if question::is_yes(&answer) {
            Ok(())
        } else {
            Err(io::Error::other("the script did not say yes"))
        }
    }
}
