use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn by_prefix(ipv6_prefix: u8) -> ClientResolver {
    ClientResolver::new(Vec::new(), ipv6_prefix, ForwardedBy::default()).unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn a_million_addresses_of_one_network_are_one_group() {
    let clients = ClientResolver::default();
    let network = Ipv6Addr::from_bits(0x2001_0db8_0001_0002 << 64);
    // An odd factor visits every number of 64 bits before any twice, far apart from one another.
    let addresses = (0..1_000_000u64)
        .map(|n| network.to_bits() | u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let groups: HashSet<IpAddr> = addresses
        .map(|bits| clients.group(Ipv6Addr::from_bits(bits).into()))
        .collect();
    assert_eq!(groups, HashSet::from([network.into()]));
}

#[test]
fn groups_depend_on_the_prefix_not_the_spelling() {
    for (prefix, one, other, is_same) in [
        (64, "2001:db8:1:2::1", "2001:db8:1:2:ffff::1", true),
        (64, "2001:db8:1:2::1", "2001:db8:1:3::1", false),
        (56, "2001:db8:1:200::1", "2001:db8:1:2ff::1", true),
        (56, "2001:db8:1:200::1", "2001:db8:1:300::1", false),
        (61, "2001:db8:1:8::1", "2001:db8:1:f::1", true),
        (61, "2001:db8:1:8::1", "2001:db8:1:7::1", false),
        (128, "2001:db8::1", "2001:db8::2", false),
        (1, "2001:db8::1", "::1", true),
        (64, "203.0.113.7", "203.0.113.8", false),
        (1, "203.0.113.7", "203.0.113.8", false),
        (64, "203.0.113.7", "::ffff:203.0.113.7", true),
        (64, "::ffff:203.0.113.7", "::ffff:203.0.113.8", false),
        (64, "64:ff9b::203.0.113.7", "64:ff9b::203.0.113.8", false),
        (64, "64:ff9b::203.0.113.7", "203.0.113.7", true),
    ] {
        let clients = by_prefix(prefix);
        assert_eq!(
            clients.group(address(one)) == clients.group(address(other)),
            is_same,
            "/{prefix} {one} {other}"
        );
    }
}

#[test]
fn new_checks_its_bounds() {
    let with = |prefix, networks| {
        let trusted = vec!["10.0.0.0/8".parse().unwrap(); networks];
        ClientResolver::new(trusted, prefix, ForwardedBy::default()).map(|_| ())
    };

    assert_eq!(with(0, 1), Err(ClientResolverError::Prefix { found: 0 }));
    assert_eq!(
        with(129, 1),
        Err(ClientResolverError::Prefix { found: 129 })
    );
    assert_eq!((with(1, 0), with(128, TRUSTED_MAX)), (Ok(()), Ok(())));
    assert_eq!(
        with(64, 1_025),
        Err(ClientResolverError::TooManyNetworks { found: 1_025 })
    );
    assert_eq!(ClientResolver::default(), by_prefix(64));
}

#[test]
fn headers_have_valid_names() {
    for header in [
        ForwardedBy::XForwardedFor,
        ForwardedBy::Forwarded,
        ForwardedBy::XRealIp,
    ] {
        // Panics if the name is not valid, or not in lower case.
        http::HeaderName::from_static(header.as_str());
    }
}

proptest! {
    #[test]
    fn grouping_is_idempotent(bits in any::<u128>(), v4 in any::<u32>()) {
        let clients = ClientResolver::default();
        for address in [Ipv6Addr::from_bits(bits).into(), IpAddr::V4(Ipv4Addr::from_bits(v4))] {
            prop_assert_eq!(clients.group(clients.group(address)), clients.group(address));
        }
    }

    #[test]
    fn addresses_share_a_group_when_they_share_the_leading_bits(
        bits in any::<u128>(), flipped in 0..128u32, prefix in 1..=128u8,
    ) {
        // The first bit is set, so the address is neither IPv4-mapped nor NAT64.
        let bits = bits | 1 << 127;
        let clients = by_prefix(prefix);
        let group = |bits| clients.group(Ipv6Addr::from_bits(bits).into());
        let other = (bits ^ 1 << (127 - flipped)) | 1 << 127;
        prop_assert_eq!(group(bits) == group(other), bits == other || flipped >= u32::from(prefix));
    }
}
