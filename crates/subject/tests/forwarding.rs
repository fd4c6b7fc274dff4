//! Client addresses behind proxies: the cases of `forwarding.txt`, and general properties.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use tollgate_subject::{ClientResolver, ForwardedBy, Network};

const ROWS_MIN: usize = 140;
const HEADERS: [ForwardedBy; 3] = [
    ForwardedBy::XForwardedFor,
    ForwardedBy::Forwarded,
    ForwardedBy::XRealIp,
];

/// A line of `forwarding.txt`.
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
    HeaderValue::from_bytes(bytes).expect("valid header bytes")
}

fn rows() -> Vec<Row<'static>> {
    let mut header = ForwardedBy::default();
    let mut rows = Vec::new();

    for line in include_str!("forwarding.txt").lines() {
        if let Some(word) = line.strip_prefix('[') {
            let name = word.trim_end_matches(']');
            let mut headers = HEADERS.into_iter();
            header = headers
                .find(|header| header.as_str() == name)
                .expect("a header");
        } else if !line.is_empty() && !line.starts_with('#') {
            rows.push(Row::read(line, header));
        }
    }

    rows
}

#[test]
fn every_row_gives_the_expected_client() {
    let rows = rows();
    assert!(rows.len() >= ROWS_MIN, "only {} rows were read", rows.len());
    for row in &rows {
        let found = row.clients.address(row.peer, &row.headers);
        assert_eq!(found, row.expected, "{}: {:?}", row.name, row.headers);
    }
}

#[test]
fn an_untrusted_peer_cannot_forge_any_header_of_the_table() {
    for row in rows() {
        for header in HEADERS {
            let clients = trusting_private(header);
            assert_eq!(
                clients.address(UNTRUSTED, &row.headers),
                UNTRUSTED,
                "{}",
                row.name
            );
        }
    }
}

const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const UNTRUSTED: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 9));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7));

fn trusting_private(header: ForwardedBy) -> ClientResolver {
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

/// A list with the client first, followed by this number of trusted proxies.
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
        let client = |list| trusting_private(header).address(PROXY, &header_lines(header, &[list]));
        assert_eq!(client(chain(header, 63)), CLIENT);
        assert_eq!(client(chain(header, 64)).to_string(), "10.0.0.2");
        assert_eq!(client(chain(header, 100_000)).to_string(), "10.0.0.2");
    }
}

#[test]
fn a_very_long_forged_list_changes_nothing() {
    for header in [ForwardedBy::XForwardedFor, ForwardedBy::Forwarded] {
        for written in [
            b"6.6.6.6, ".repeat(50_000),
            b"x".repeat(500_000),
            b"\"\\,".repeat(50_000),
        ] {
            let one_line = [&written[..], b", ", &chain(header, 2)].concat();
            let lines = [written, chain(header, 2)];
            assert_eq!(
                trusting_private(header).address(PROXY, &header_lines(header, &[one_line])),
                CLIENT
            );
            assert_eq!(
                trusting_private(header).address(PROXY, &header_lines(header, &lines)),
                CLIENT
            );
        }
    }
}

#[test]
fn ten_thousand_forged_lines_change_nothing() {
    for header in [ForwardedBy::XForwardedFor, ForwardedBy::Forwarded] {
        let mut lines = vec![b"for=6.6.6.6".to_vec(); 10_000];
        lines.push(chain(header, 1));
        assert_eq!(
            trusting_private(header).address(PROXY, &header_lines(header, &lines)),
            CLIENT
        );
    }
}

#[test]
fn elements_of_up_to_a_kibibyte_are_read() {
    let element = |host_len: usize| {
        format!("for=6.6.6.6, for=203.0.113.7;host={}", "h".repeat(host_len)).into_bytes()
    };
    let client = |list| {
        trusting_private(ForwardedBy::Forwarded)
            .address(PROXY, &header_lines(ForwardedBy::Forwarded, &[list]))
    };
    let longest = 1_024 - " for=203.0.113.7;host=".len();

    assert_eq!(client(element(longest)), CLIENT);
    assert_eq!(client(element(longest + 1)), PROXY);
}

/// Header bytes that a client may send, mostly the special characters of lists.
fn forged_bytes() -> impl Strategy<Value = Vec<u8>> {
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
    proptest::sample::select(&HEADERS[..])
}

fn any_address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).into()),
        any::<u128>().prop_map(|bits| Ipv6Addr::from_bits(bits).into()),
        any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).to_ipv6_mapped().into()),
    ]
}

/// The entry that a proxy appends for a client, in one of several common styles.
fn appended_entry(header: ForwardedBy, client: IpAddr, style: u8) -> String {
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
    fn an_untrusted_peer_is_always_the_client(
        header in any_header(),
        peer in any_address(),
        lines in proptest::collection::vec(forged_bytes(), 0..5),
    ) {
        let clients = trusting_private(header);
        prop_assume!(!clients.trusts(peer));

        let headers = header_lines(header, &lines);
        let expected = clients.address(peer, &HeaderMap::new());

        prop_assert_eq!(clients.address(peer, &headers), expected);
        prop_assert_eq!(ClientResolver::default().address(peer, &headers), expected);
    }

    #[test]
    fn text_left_of_a_proxys_entry_changes_nothing(
        is_standard in any::<bool>(),
        lines in proptest::collection::vec(forged_bytes(), 1..4),
        client in any_address(),
        style in 0..6u8,
        proxies in 0..3usize,
        is_own_line in any::<bool>(),
    ) {
        let header = if is_standard { ForwardedBy::Forwarded } else { ForwardedBy::XForwardedFor };
        let clients = trusting_private(header);

        prop_assume!(!clients.trusts(client) && !client.to_canonical().is_unspecified());

        let mut appended = appended_entry(header, client, style);
        for _ in 0..proxies {
            appended = [appended, appended_entry(header, PROXY, style)].join(", ");
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
