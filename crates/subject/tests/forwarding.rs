//! Who is the client, whatever the headers say: a table of cases, and what holds for all.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use tollgate_subject::{ClientResolver, ForwardedBy, Network};

const ROWS_MIN: usize = 140;

struct Row<'a> {
    name: &'a str,
    clients: ClientResolver,
    peer: IpAddr,
    headers: HeaderMap,
    expected: IpAddr,
}

impl<'a> Row<'a> {
    fn read(row: &'a str, header: ForwardedBy) -> Self {
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        let [name, trusted, peer, lines, expected] =
            columns.try_into().expect("a row has five columns");
        let network = |text: &str| text.parse().expect("a network");
        let address = |text: &str| text.parse().expect("an address");
        let trusted = trusted.split_whitespace().map(network).collect();
        let mut headers = HeaderMap::new();
        for line in lines
            .split('¶')
            .map(str::trim)
            .filter(|_| !lines.is_empty())
        {
            let (name, value) = name_and_value(line, header);
            headers.append(
                HeaderName::try_from(name).expect("a name"),
                value_of(value.as_bytes()),
            );
        }
        let clients =
            ClientResolver::new(trusted, 64, header).expect("networks and a prefix within bounds");
        Self {
            name,
            clients,
            peer: address(peer),
            headers,
            expected: address(expected),
        }
    }
}

fn name_and_value(line: &str, header: ForwardedBy) -> (&str, &str) {
    let without_value = line
        .strip_suffix(':')
        .filter(|name| *name == header.as_str());
    let named = line
        .split_once(": ")
        .or(without_value.map(|name| (name, "")));
    named.unwrap_or((header.as_str(), line))
}

fn value_of(bytes: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(bytes).expect("bytes that may stand in a header")
}

fn rows() -> Vec<Row<'static>> {
    let mut header = ForwardedBy::default();
    let mut rows = Vec::new();
    for line in include_str!("forwarding.txt").lines() {
        if let Some(word) = line.strip_prefix('[') {
            header = word.trim_end_matches(']').parse().expect("a header");
        } else if !line.is_empty() && !line.starts_with('#') {
            rows.push(Row::read(line, header));
        }
    }
    rows
}

#[test]
fn every_row_of_the_table_holds() {
    let rows = rows();
    assert!(rows.len() >= ROWS_MIN, "only {} rows were read", rows.len());
    for row in &rows {
        let found = row.clients.address(row.peer, &row.headers);
        assert_eq!(found, row.expected, "{}: {:?}", row.name, row.headers);
    }
}

#[test]
fn an_untrusted_peer_cannot_use_any_line_of_the_table() {
    for row in rows() {
        for header in [
            ForwardedBy::XForwardedFor,
            ForwardedBy::Forwarded,
            ForwardedBy::XRealIp,
        ] {
            let clients = behind_ten(header);
            assert_eq!(
                clients.address(STRANGER, &row.headers),
                STRANGER,
                "{}",
                row.name
            );
        }
    }
}

const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 9));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7));

fn behind_ten(header: ForwardedBy) -> ClientResolver {
    let private: Network = "10.0.0.0/8".parse().expect("a network");
    ClientResolver::new(vec![private], 64, header).expect("a prefix within bounds")
}

fn header_lines(header: ForwardedBy, lines: &[Vec<u8>]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(HeaderName::from_static(header.as_str()), value_of(line));
    }
    headers
}

/// A list of so many hops that begins with the client and goes on with trusted proxies.
fn chain(header: ForwardedBy, proxies: usize) -> Vec<u8> {
    let hop = |address: &str| match header {
        ForwardedBy::Forwarded => format!("for={address}"),
        _ => address.to_owned(),
    };
    let mut hops = vec![hop("203.0.113.7")];
    hops.extend((0..proxies).map(|_| hop("10.0.0.2")));
    hops.join(", ").into_bytes()
}

#[test]
fn a_chain_is_followed_for_sixty_four_hops() {
    for header in [ForwardedBy::XForwardedFor, ForwardedBy::Forwarded] {
        let client = |list| behind_ten(header).address(PROXY, &header_lines(header, &[list]));
        assert_eq!(client(chain(header, 63)), CLIENT);
        assert_eq!(client(chain(header, 64)).to_string(), "10.0.0.2");
        assert_eq!(client(chain(header, 100_000)).to_string(), "10.0.0.2");
    }
}

#[test]
fn a_very_long_list_of_the_clients_changes_nothing() {
    for header in [ForwardedBy::XForwardedFor, ForwardedBy::Forwarded] {
        for written in [
            b"6.6.6.6, ".repeat(50_000),
            b"x".repeat(500_000),
            b"\"\\,".repeat(50_000),
        ] {
            let one_line = [&written[..], b", ", &chain(header, 2)].concat();
            let lines = [written, chain(header, 2)];
            assert_eq!(
                behind_ten(header).address(PROXY, &header_lines(header, &[one_line])),
                CLIENT
            );
            assert_eq!(
                behind_ten(header).address(PROXY, &header_lines(header, &lines)),
                CLIENT
            );
        }
    }
}

#[test]
fn ten_thousand_lines_of_the_clients_change_nothing() {
    for header in [ForwardedBy::XForwardedFor, ForwardedBy::Forwarded] {
        let mut lines = vec![b"for=6.6.6.6".to_vec(); 10_000];
        lines.push(chain(header, 1));
        assert_eq!(
            behind_ten(header).address(PROXY, &header_lines(header, &lines)),
            CLIENT
        );
    }
}

#[test]
fn an_element_is_read_up_to_a_kibibyte() {
    let element = |host_len: usize| {
        format!("for=6.6.6.6, for=203.0.113.7;host={}", "h".repeat(host_len)).into_bytes()
    };
    let client = |list| {
        behind_ten(ForwardedBy::Forwarded)
            .address(PROXY, &header_lines(ForwardedBy::Forwarded, &[list]))
    };
    let longest = 1_024 - " for=203.0.113.7;host=".len();
    assert_eq!(client(element(longest)), CLIENT);
    assert_eq!(client(element(longest + 1)), PROXY);
}

/// Bytes that may stand in a header, mostly those that mean something in a list.
fn written_by_a_client() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        6 => proptest::sample::select(&b"\",;=\\ \t.:[]%_106af"[..]),
        1 => (0x20..=0xffu8).prop_filter("a header may not hold it", |byte| *byte != 0x7f),
    ];
    let words = prop_oneof![
        Just(b"6.6.6.6".to_vec()),
        Just(b"10.0.0.2".to_vec()),
        Just(b"for=10.0.0.2".to_vec()),
        Just(b"for=\"10.0.0.2".to_vec()),
        Just(b", ".to_vec()),
        proptest::collection::vec(byte, 0..12),
    ];
    proptest::collection::vec(words, 0..8).prop_map(|words| words.concat())
}

fn any_header() -> impl Strategy<Value = ForwardedBy> {
    proptest::sample::select(
        &[
            ForwardedBy::XForwardedFor,
            ForwardedBy::Forwarded,
            ForwardedBy::XRealIp,
        ][..],
    )
}

fn any_address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).into()),
        any::<u128>().prop_map(|bits| Ipv6Addr::from_bits(bits).into()),
        any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).to_ipv6_mapped().into()),
    ]
}

/// What a proxy adds for a client, in one of the ways that proxies do.
fn added(header: ForwardedBy, client: IpAddr, style: u8) -> String {
    let node = match (client, style % 2) {
        (IpAddr::V6(v6), 0) => format!("[{v6}]"),
        (IpAddr::V6(v6), _) => format!("[{v6}]:443"),
        (IpAddr::V4(v4), 0) => v4.to_string(),
        (IpAddr::V4(v4), _) => format!("{v4}:443"),
    };
    match (header, style) {
        (ForwardedBy::Forwarded, 0 | 1) => format!("for=\"{node}\";proto=https"),
        (ForwardedBy::Forwarded, 2 | 3) => format!("host=\"a, \\\"b\\\\\";for=\"{node}\""),
        (ForwardedBy::Forwarded, _) => format!("For={node};by=\"\\\\\\\", for=6.6.6.6\""),
        _ => node,
    }
}

proptest! {
    #[test]
    fn an_untrusted_peer_is_the_client_whatever_it_writes(
        header in any_header(),
        peer in any_address(),
        lines in proptest::collection::vec(written_by_a_client(), 0..5),
    ) {
        let clients = behind_ten(header);
        prop_assume!(!clients.trusts(peer));
        let headers = header_lines(header, &lines);
        prop_assert_eq!(clients.address(peer, &headers), clients.address(peer, &HeaderMap::new()));
        prop_assert_eq!(ClientResolver::default().address(peer, &headers), clients.address(peer, &HeaderMap::new()));
    }

    #[test]
    fn what_stands_left_of_a_proxys_word_changes_nothing(
        is_standard in any::<bool>(),
        lines in proptest::collection::vec(written_by_a_client(), 1..4),
        client in any_address(),
        style in 0..6u8,
        proxies in 0..3usize,
        is_own_line in any::<bool>(),
    ) {
        let header = if is_standard { ForwardedBy::Forwarded } else { ForwardedBy::XForwardedFor };
        let clients = behind_ten(header);
        prop_assume!(!clients.trusts(client) && !client.to_canonical().is_unspecified());
        let mut appended = added(header, client, style);
        for _ in 0..proxies {
            appended = [appended, added(header, PROXY, style)].join(", ");
        }
        let alone = clients.address(PROXY, &header_lines(header, &[appended.clone().into_bytes()]));
        let mut lines = lines;
        if is_own_line {
            lines.push(appended.into_bytes());
        } else if let Some(last) = lines.last_mut() {
            last.extend_from_slice(b", ");
            last.extend_from_slice(appended.as_bytes());
        }
        prop_assert_eq!(alone, clients.address(client, &HeaderMap::new()));
        prop_assert_eq!(clients.address(PROXY, &header_lines(header, &lines)), alone);
    }
}
