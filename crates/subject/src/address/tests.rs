use proptest::prelude::*;

use super::*;

#[test]
fn common_spellings_are_parsed() {
    for (text, address) in [
        ("203.0.113.7", "203.0.113.7"),
        ("203.0.113.7:0", "203.0.113.7"),
        ("203.0.113.7:65535", "203.0.113.7"),
        ("2001:db8::1", "2001:db8::1"),
        ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[::1]:80", "::1"),
        ("2001:db8::1:80", "2001:db8::1:80"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("::ffff:cb00:7107", "203.0.113.7"),
        ("[::ffff:203.0.113.7]:80", "203.0.113.7"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%25eth0]:80", "fe80::1"),
        ("::ffff:203.0.113.7%1", "203.0.113.7"),
        ("64:ff9b::203.0.113.7", "203.0.113.7"),
        ("[64:ff9b::cb00:7107]:80", "203.0.113.7"),
        ("64:ff9b::10.0.0.1", "64:ff9b::a00:1"),
        ("64:ff9b::127.0.0.1", "64:ff9b::7f00:1"),
        ("64:ff9b::100.64.0.1", "64:ff9b::6440:1"),
        ("64:ff9b::169.254.169.254", "64:ff9b::a9fe:a9fe"),
        ("64:ff9b::0.0.0.1", "64:ff9b::1"),
        ("64:ff9b::255.255.255.255", "64:ff9b::ffff:ffff"),
        ("64:ff9b:1::203.0.113.7", "64:ff9b:1::cb00:7107"),
        ("::203.0.113.7", "::203.0.113.7"),
    ] {
        assert_eq!(parse_address(text), Ok(address.parse().unwrap()), "{text}");
    }
}

#[test]
fn ambiguous_and_invalid_addresses_are_rejected() {
    for text in [
        "010.0.0.1",
        "10.0.0.01",
        "1.2",
        "1",
        "2130706433",
        "0x7f.0.0.1",
        "0x7f000001",
        "1.2.3.4.5",
        "1.2.3.256",
        "1.2.3.4:",
        "1.2.3.4:x",
        "1.2.3.4:65536",
        "1.2.3.4:000080",
        "1.2.3.4:+80",
        "1.2.3.4:80:80",
        "1.2.3.4/32",
        "[1.2.3.4]",
        "[::1",
        "::1]",
        "[::1]x",
        "[::1]:",
        "[::1]:x",
        "[]",
        "[[::1]]",
        "::ffff:1.2.3.4:80",
        ":80",
        "fe80::1%",
        "fe80::1%a b",
        "fe80::1%eth0%eth1",
        "1.2.3.4%eth0",
        "%eth0",
        "1.2.3.4 ",
        " 1.2.3.4",
        "1.2.3.4\0",
        "0.0.0.0",
        "::",
        "[::]:80",
        "::ffff:0.0.0.0",
        "localhost",
        "unknown",
        "_hidden",
        "\u{ff11}.2.3.4",
        "1.2.3.4,5.6.7.8",
    ] {
        assert_eq!(
            parse_address(text),
            Err(AddressError::Invalid {
                found: text.to_owned()
            }),
            "{text:?}"
        );
    }

    assert_eq!(parse_address(""), Err(AddressError::Empty));
    assert_eq!(
        parse_address(&"1".repeat(129)),
        Err(AddressError::TooLong { found: 129 })
    );

    let zone = |len| parse_address(&format!("fe80::1%{}", "z".repeat(len)));
    assert!(zone(32).is_ok() && zone(33).is_err());
}

proptest! {
    #[test]
    fn formatted_addresses_parse_to_their_host(
        bits in any::<u128>(), v4 in any::<u32>(), port in any::<u16>(),
    ) {
        let v6 = Ipv6Addr::from_bits(bits);
        let v4 = Ipv4Addr::from_bits(v4 | 1);

        for text in [v6.to_string(), format!("[{v6}]"), format!("[{v6}%7]:{port}")] {
            prop_assert_eq!(parse_address(&text), Ok(host(v6.into())));
        }

        let mapped = v4.to_ipv6_mapped();
        for text in [v4.to_string(), format!("{v4}:{port}"), format!("[{mapped}]:{port}")] {
            prop_assert_eq!(parse_address(&text), Ok(v4.into()));
        }
    }

    #[test]
    fn no_text_panics_and_every_error_has_a_message(text in "\\PC{0,40}|[0-9a-f:.%\\[\\]]{0,50}") {
        if let Err(error) = parse_address(&text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

proptest! {
    /// No octal, short or numeric form is accepted.
    #[test]
    fn plain_ipv4_addresses_are_those_of_the_standard_library(
        text in "[0-9]{0,4}(\\.[0-9]{0,4}){2,4}|[0-9.]{0,16}|0\\.0\\.0\\.[0-9]{1,2}",
    ) {
        let known = text.parse::<Ipv4Addr>().ok().filter(|address| !address.is_unspecified());
        prop_assert_eq!(parse_address(&text).ok(), known.map(IpAddr::V4));
    }
}
