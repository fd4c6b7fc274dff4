//! What a node knows about the others, from `CLUSTER NODES`.

use super::super::Server;

/// A node as seen by another node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NodeInfo {
    pub(super) id: String,
    pub(super) port: u16,
    /// The id of its primary.
    pub(super) primary: Option<String>,
    /// The configuration epoch, which grows with every election.
    pub(super) epoch: u64,
    flags: Vec<String>,
    is_connected: bool,
    /// The first and the last slot of each range.
    slots: Vec<(u16, u16)>,
}

/// All nodes that a node knows, including itself.
pub(super) fn view(node: &Server) -> Vec<NodeInfo> {
    let reply = node.must(&["CLUSTER", "NODES"]);
    let text = reply.as_str().expect("the list of nodes is a string");
    text.lines()
        .map(|line| NodeInfo::parse(line).expect("each line describes a node"))
        .collect()
}

impl NodeInfo {
    /// Parses `id address@bus flags primary ping pong epoch link slot...`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let id = words.next()?.to_owned();
        let (address, _) = words.next()?.split_once('@')?;
        let (_, port) = address.rsplit_once(':')?;
        let flags = words.next()?.split(',').map(str::to_owned).collect();
        let primary = words.next().filter(|id| *id != "-").map(str::to_owned);
        let epoch = words.nth(2)?.parse().ok()?;
        let is_connected = words.next()? == "connected";

        // An entry in brackets is a slot that is being moved; it belongs to its old primary until
        // the move is finished.
        let slots = words
            .filter(|word| !word.starts_with('['))
            .filter_map(range)
            .collect();

        Some(Self {
            id,
            port: port.parse().ok()?,
            primary,
            epoch,
            flags,
            is_connected,
            slots,
        })
    }

    pub(super) fn holds(&self, slot: u16) -> bool {
        self.slots
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&slot))
    }

    pub(super) fn slot_count(&self) -> usize {
        self.slots
            .iter()
            .map(|(first, last)| usize::from(last - first) + 1)
            .sum()
    }

    pub(super) fn is_primary(&self) -> bool {
        self.has("master")
    }

    pub(super) fn is_replica(&self) -> bool {
        self.has("slave")
    }

    pub(super) fn is_myself_primary(&self) -> bool {
        self.has("myself") && self.is_primary()
    }

    /// Whether the handshake is finished and the link is connected.
    pub(super) fn is_met(&self) -> bool {
        self.is_connected && !self.has("handshake") && !self.has("noaddr")
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }
}

fn range(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_with_a_moving_slot_is_parsed() {
        let line =
            "abc 127.0.0.1:7001@17001,host myself,master - 0 0 3 connected 0-10 12 [5->-def]";
        let known = NodeInfo::parse(line).unwrap();
        assert_eq!(
            (
                known.id.as_str(),
                known.port,
                known.epoch,
                known.primary.as_deref()
            ),
            ("abc", 7001, 3, None)
        );
        assert!(known.is_myself_primary() && known.is_met() && !known.is_replica());
        assert!(known.holds(10) && known.holds(12) && !known.holds(11));
        assert_eq!(known.slot_count(), 12);
    }

    #[test]
    fn a_replica_has_the_id_of_its_primary() {
        let known =
            NodeInfo::parse("def 127.0.0.1:7002@17002 slave,fail abc 1 2 3 disconnected").unwrap();
        assert!(known.is_replica() && !known.is_met() && !known.is_primary());
        assert_eq!(known.primary.as_deref(), Some("abc"));
    }

    #[test]
    fn a_truncated_line_is_not_a_node() {
        assert_eq!(NodeInfo::parse("def 127.0.0.1:7002@17002 slave"), None);
    }
}
