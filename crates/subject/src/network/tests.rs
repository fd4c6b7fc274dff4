use proptest::prelude::*;

use super::*;

fn network(text: &str) -> Network {
    text.parse().unwrap()
}

fn error(text: &str) -> String {
    text.parse::<Network>().unwrap_err().to_string()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn networks_contain_their_addresses() {
    for (text, inside, outside) in [
        ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
        ("192.0.2.128/25", "192.0.2.128", "192.0.2.127"),
        ("203.0.113.7", "203.0.113.7", "203.0.113.6"),
        ("0.0.0.0/0", "255.255.255.255", "2001:db8::1"),
        ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
        ("::1/128", "::1", "::2"),
        ("::1", "::1", "127.0.0.1"),
        ("::/0", "2001:db8::1", "::ffff:10.0.0.1"),
        ("10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"),
        ("::ffff:10.0.0.0/104", "10.1.2.3", "11.0.0.1"),
        ("::ffff:0:0/96", "203.0.113.7", "2001:db8::1"),
    ] {
        assert!(
            network(text).contains(address(inside)),
            "{text} contains {inside}"
        );
        assert!(
            !network(text).contains(address(outside)),
            "{text} does not contain {outside}"
        );
    }
}

#[test]
fn a_network_has_one_display_form() {
    assert_eq!(network("203.0.113.7").to_string(), "203.0.113.7/32");
    assert_eq!(network("2001:0DB8::0/32").to_string(), "2001:db8::/32");
    assert_eq!(network("::ffff:10.0.0.0/104").to_string(), "10.0.0.0/8");
    assert_eq!(network("::ffff:10.0.0.1").to_string(), "10.0.0.1/32");
}

#[test]
fn host_bits_are_an_error_that_names_the_network() {
    for (text, suggestion) in [
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("10.0.0.1/0", "0.0.0.0/0"),
        ("2001:db8::1/64", "2001:db8::/64"),
        ("::ffff:10.1.2.3/104", "10.0.0.0/8"),
        // The prefix length means the IPv4 address, not the whole IPv6 address.
        ("::ffff:10.0.0.0/8", "10.0.0.0/8"),
        ("::ffff:10.0.0.1/64", "10.0.0.1/32"),
    ] {
        assert_eq!(
            error(text),
            format!("invalid network {text:?}: host bits are set; did you mean {suggestion}?")
        );
        assert_eq!(network(suggestion).to_string(), suggestion);
    }
}

#[test]
fn invalid_networks_are_rejected() {
    for text in [
        "",
        "/",
        "/8",
        "10/8",
        "10.0.0/8",
        "010.0.0.0/8",
        "[::1]/128",
        "fe80::%1/64",
        " 10.0.0.0/8",
        "all",
    ] {
        assert!(error(text).contains("expected one such as"), "{text}");
    }
    for text in [
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/08",
        "10.0.0.0/+8",
        "10.0.0.0/8/8",
        "10.0.0.0/-1",
        "10.0.0.0/256",
    ] {
        assert!(
            error(text).ends_with("the prefix length must be between 0 and 32"),
            "{text}"
        );
    }

    assert!(error("::/129").ends_with("must be between 0 and 128"));
    assert!(error(&"x".repeat(10_000)).len() < 200);
}

proptest! {
    #[test]
    fn a_displayed_network_parses_back(bits in any::<u128>(), prefix in 0..=128u8) {
        let around = Network::around(Ipv6Addr::from_bits(bits).into(), prefix);
        prop_assert_eq!(around.to_string().parse(), Ok(around));
    }

    #[test]
    fn the_leading_bits_decide(bits in any::<u32>(), other in any::<u32>(), prefix in 0..=32u8) {
        let around = Network::around(Ipv4Addr::from_bits(bits).into(), prefix);
        let same_bits = (bits ^ other).leading_zeros() >= u32::from(prefix);
        prop_assert_eq!(around.contains(Ipv4Addr::from_bits(other).into()), same_bits);
    }

    #[test]
    fn nothing_panics(text in "\\PC{0,20}|[0-9a-f:./]{0,30}") {
        let network = text.parse::<Network>();
        let shown = network.map_or_else(|error| error.to_string(), |network| network.to_string());
        prop_assert!(!shown.is_empty());
    }
}
