//! The events of a Sentinel.

use crate::connector::RespConnection;
use crate::error::ServerError;
use crate::resp::RespValue;

/// The events after which a Sentinel may report another primary: a fail-over begins, the Sentinel
/// that leads it has promoted a replica, and another Sentinel has heard of that.
const CHANNELS: [&[u8]; 3] = [b"+try-failover", b"+promoted-slave", b"+switch-master"];

/// A connection on which a Sentinel sends its events.
pub(super) struct EventSubscription {
    connection: RespConnection,
}

impl EventSubscription {
    /// Subscribes to the events. `None` if the Sentinel does not allow it.
    pub(super) async fn open(mut connection: RespConnection) -> Result<Option<Self>, ServerError> {
        let mut command: Vec<&[u8]> = vec![b"SUBSCRIBE"];
        command.extend(CHANNELS);
        connection.send(&command).await?;

        // The replies for the other channels are skipped like the events of other groups.
        let is_allowed = connection.receive(|reply| !matches!(reply, RespValue::Error(_)));
        let is_allowed = is_allowed.await?;
        Ok(is_allowed.then_some(Self { connection }))
    }

    /// Waits for an event of the group. Can be cancelled without losing one.
    pub(super) async fn next_event(&mut self, group: &str) -> Result<(), ServerError> {
        let is_event = |message: &RespValue<'_>| is_event_of(group, message);
        while !self.connection.receive(is_event).await? {}
        Ok(())
    }

    /// Checks that the connection still works. Skips the events until then.
    pub(super) async fn ping(&mut self) -> Result<(), ServerError> {
        self.connection.send(&[b"PING"]).await?;
        while !self.connection.receive(is_pong).await? {}
        Ok(())
    }
}

/// True for an event with the name of the group, such as
/// `+switch-master`: `mymaster 10.0.0.1 6379 10.0.0.2 6379`.
fn is_event_of(group: &str, message: &RespValue<'_>) -> bool {
    let Some([kind, _, event]) = message.as_array() else {
        return false;
    };
    let mut words = event.as_text().unwrap_or_default().split(' ');
    kind.as_text() == Some("message") && words.any(|word| word == group)
}

/// True for the reply to `PING`, which is an array on a connection with subscriptions.
fn is_pong(message: &RespValue<'_>) -> bool {
    let array = message.as_array();
    array.and_then(|array| array.first()?.as_text()) == Some("pong")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<'a>(kind: &'a str, event: &'a str) -> RespValue<'a> {
        let words = [kind, "+channel", event].map(|word| RespValue::Text(word.as_bytes()));
        RespValue::Array(words.into())
    }

    #[test]
    fn events_of_other_groups_are_skipped() {
        for event in [
            "carts 10.0.0.1 6379 10.0.0.2 6379",
            "master carts 10.0.0.1 6379",
            "slave 10.0.0.2:6379 10.0.0.2 6379 @ carts 10.0.0.1 6379",
        ] {
            assert!(is_event_of("carts", &message("message", event)), "{event}");
            assert!(!is_event_of("cart", &message("message", event)), "{event}");
        }

        assert!(!is_event_of("carts", &message("subscribe", "carts")));
        assert!(!is_event_of("carts", &RespValue::Text(b"carts")));
    }
}
