use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::algorithm::{FixedWindow, Quota, Rate, SlidingWindow, TokenBucket};
use crate::name::LimitName;
use std::time::Duration;

fn prefix(name: &str, quota: impl Into<Quota>) -> KeyPrefix {
    KeyPrefix::new(LimitName::new(name).unwrap(), quota.into().shape())
}

fn bucket() -> TokenBucket {
    TokenBucket::new(10, Rate::per_second(1)).unwrap()
}

fn bytes(key: &(impl ToKey + ?Sized)) -> Vec<u8> {
    let prefix = prefix("api", bucket());
    let mut buffer = Encoded::new();
    Key::new(&prefix, Parts::of(key, &mut buffer).unwrap()).to_bytes()
}

fn refused(key: &(impl ToKey + ?Sized)) -> KeyError {
    Parts::of(key, &mut Encoded::new())
        .err()
        .expect("the key is refused")
}

/// One part of any type, for making keys at random.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    Text(String),
    Bytes(Vec<u8>),
    Number(u64),
    Address(IpAddr),
    Hash([u8; 2]),
}

struct Sequence<'a>(&'a [Part]);

impl ToKey for Sequence<'_> {
    fn write(&self, parts: &mut KeyParts) {
        for part in self.0 {
            match part {
                Part::Text(text) => parts.text(text),
                Part::Bytes(bytes) => parts.bytes(bytes),
                Part::Number(number) => parts.number(*number),
                Part::Address(address) => parts.address(*address),
                Part::Hash(value) => parts.hashed(KeyHasher::new(&[7; 32]).unwrap().hash(value)),
            }
        }
    }

    fn as_text(&self) -> Option<&str> {
        match self.0 {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }
}

/// Few letters, the tags among them, so that clashes would be found if there were any.
fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        "[a\u{1}\u{2}\u{3}\u{0}]{1,6}".prop_map(Part::Text),
        proptest::collection::vec(0..7u8, 1..6).prop_map(Part::Bytes),
        (0..4u64).prop_map(Part::Number),
        (0..3u32).prop_map(|bits| Part::Address(Ipv4Addr::from(bits).into())),
        (0..3u128).prop_map(|bits| Part::Address(Ipv6Addr::from(bits + (1 << 100)).into())),
        any::<bool>().prop_map(|one| Part::Hash([u8::from(one); 2])),
    ]
}

proptest! {
    #[test]
    fn different_parts_give_different_bytes_and_feed_different_hashes(
        keys in proptest::collection::vec(proptest::collection::vec(part(), 0..4), 2..40),
    ) {
        let prefix = prefix("api", bucket());
        let (mut seen_bytes, mut seen_hashes) = (HashMap::new(), HashMap::new());
        for parts in &keys {
            let mut buffer = Encoded::new();
            let sequence = Sequence(parts);
            let key = Key::new(&prefix, Parts::of(&sequence, &mut buffer).unwrap());
            let mut hasher = DefaultHasher::new();
            key.feed(&mut hasher);
            prop_assert_eq!(*seen_bytes.entry(key.to_bytes()).or_insert(parts), parts);
            prop_assert_eq!(*seen_hashes.entry(hasher.finish()).or_insert(parts), parts);
        }
    }

    #[test]
    fn a_prefix_is_never_the_beginning_of_another(a in "[a-c]{1,4}", b in "[a-c]{1,4}") {
        let (first, second) = (prefix(&a, bucket()), prefix(&b, bucket()));
        prop_assert_eq!(first.as_bytes().starts_with(second.as_bytes()), a == b);
    }
}

#[test]
fn the_cut_between_parts_counts() {
    assert_ne!(bytes(&("a", "bc")), bytes(&("ab", "c")));
    assert_ne!(bytes(&("a", "b")), bytes("ab"));
    assert_ne!(bytes("7"), bytes(&7u64));
    assert_ne!(bytes("ab"), bytes(&b"ab"[..]));
    assert_eq!(bytes(&("a", 7u32)), bytes(&("a", 7u64)));
}

#[test]
fn a_text_is_the_same_key_however_it_is_held() {
    assert_eq!(bytes("ann"), bytes(&String::from("ann")));
    assert_eq!(bytes(&("ann",)), bytes("ann"));
    assert_eq!(bytes(&Some("ann")), bytes("ann"));
    // Not only the bytes: the form as well, which is what the memory store hashes.
    let (mut first, mut second, mut third) = (Encoded::new(), Encoded::new(), Encoded::new());
    assert!(matches!(
        Parts::of(&Some("ann"), &mut third),
        Ok(Parts::Text("ann"))
    ));
    assert!(matches!(
        Parts::of(&("ann",), &mut first),
        Ok(Parts::Text("ann"))
    ));
    assert!(matches!(
        Parts::of(&("ann", ()), &mut second),
        Ok(Parts::Text("ann"))
    ));
}

#[test]
fn a_mapped_address_is_the_host_it_maps_to() {
    let mapped: Ipv6Addr = "::ffff:203.0.113.7".parse().unwrap();
    assert_eq!(bytes(&mapped), bytes(&Ipv4Addr::new(203, 0, 113, 7)));
}

#[test]
fn limits_and_shapes_do_not_mix() {
    let window = |secs| SlidingWindow::new(5, Duration::from_secs(secs)).unwrap();
    let fixed = FixedWindow::new(5, Duration::from_secs(60)).unwrap();
    let prefixes = [
        prefix("api", window(60)),
        prefix("api", window(61)),
        prefix("api", fixed),
        prefix("api2", window(60)),
        prefix("api", bucket()),
    ];
    let distinct: std::collections::HashSet<_> = prefixes.iter().map(KeyPrefix::digest).collect();
    assert_eq!(distinct.len(), prefixes.len());
    let more = SlidingWindow::new(500, Duration::from_secs(60)).unwrap();
    assert_eq!(
        prefix("api", more),
        prefixes[0],
        "other numbers keep the counter"
    );
}

#[test]
fn a_missing_part_is_refused_and_never_shared() {
    assert_eq!(refused(""), KeyError::Empty);
    assert_eq!(refused(&("tenant", "")), KeyError::Empty);
    assert_eq!(refused(&None::<u64>), KeyError::Empty);
    assert!(bytes(&()).len() > "api".len());
}

#[test]
fn long_keys_are_refused_with_their_length() {
    let long = "x".repeat(KEY_MAX - 2);
    assert_eq!(
        refused(long.as_str()),
        KeyError::TooLong { found: KEY_MAX - 2 }
    );
    assert_ne!(
        bytes(&"x".repeat(KEY_MAX - 3)),
        bytes(&"y".repeat(KEY_MAX - 3)),
        "long keys were cut short once"
    );
    assert!(
        matches!(refused(&(long.as_str(), 1u64)), KeyError::TooLong { found } if found > KEY_MAX)
    );
    assert!(
        matches!(refused(&("x".repeat(70_000), 1u64)), KeyError::TooLong { found } if found > 70_000)
    );
    assert!(
        refused(long.as_str())
            .to_string()
            .contains("1022 bytes; at most 1024")
    );
    assert!(Parts::of(&long[1..], &mut Encoded::new()).is_ok());
}

#[test]
fn hashed_parts_need_the_secret_and_do_not_show_it() {
    let (one, other) = (
        KeyHasher::new(&[1; 16]).unwrap(),
        KeyHasher::new(&[2; 16]).unwrap(),
    );
    assert_ne!(one.hash(b"api-key"), other.hash(b"api-key"));
    assert_ne!(one.hash(b"api-key"), one.hash(b"api-kez"));
    assert_eq!(format!("{one:?}"), "KeyHasher(..)");
    let short = KeyHasher::new(b"short").unwrap_err().to_string();
    assert!(short.contains("5 bytes; use at least 16"), "{short}");
}

/// RFC 4231, test case 6: a key longer than the hash's block.
#[test]
fn the_keyed_hash_is_hmac_sha_256() {
    let hashed = KeyHasher::new(&[0xaa; 131])
        .unwrap()
        .hash(b"Test Using Larger Than Block-Size Key - Hash Key First");
    assert_eq!(hashed.to_string(), "60e431591ee0b67f0d8a26aacbf5b77f");
}

#[test]
fn a_key_written_down_names_the_same_counter() {
    for key in [
        EncodedKey::new("ann"),
        EncodedKey::new(&("ann", 7_u64)),
        EncodedKey::new(&()),
    ] {
        let key = key.unwrap();
        let back = EncodedKey::from_bytes(key.as_bytes()).unwrap();
        assert_eq!((bytes(&key), &back), (bytes(&back), &key));
    }
    assert_eq!(bytes(&EncodedKey::new("ann").unwrap()), bytes("ann"));
    assert_eq!(
        bytes(&EncodedKey::new(&("ann", 7_u64)).unwrap()),
        bytes(&("ann", 7_u64))
    );
}

#[test]
fn a_key_tells_what_it_was_made_of() {
    let hasher = KeyHasher::new(b"0123456789abcdef").unwrap();
    let (v4, v6) = (
        std::net::Ipv4Addr::new(10, 0, 0, 1),
        std::net::Ipv6Addr::LOCALHOST,
    );
    let key = EncodedKey::new(&("ann", 7_u64, v4, v6)).unwrap();
    let expected = [
        KeyPart::Text("ann"),
        KeyPart::Number(7),
        KeyPart::Address(v4.into()),
        KeyPart::Address(v6.into()),
    ];
    assert_eq!(key.parts().collect::<Vec<_>>(), expected);
    let key = EncodedKey::new(&(&b"raw"[..], hasher.hash(b"secret"))).unwrap();
    let expected = [
        KeyPart::Bytes(b"raw"),
        KeyPart::Hash(hasher.hash(b"secret")),
    ];
    assert_eq!(key.parts().collect::<Vec<_>>(), expected);
    assert_eq!(EncodedKey::new(&()).unwrap().parts().count(), 0);
}

#[test]
fn bytes_that_are_no_key_are_refused() {
    let good = EncodedKey::new(&("ann", 7_u64)).unwrap();
    for end in 1..good.as_bytes().len() {
        let is_whole = end == EncodedKey::new("ann").unwrap().as_bytes().len();
        assert_eq!(
            EncodedKey::from_bytes(&good.as_bytes()[..end]).is_ok(),
            is_whole,
            "{end} bytes"
        );
    }
    for wrong in [
        &[1, 0, 0][..],
        &[1, 1, 0, 0xff],
        &[9, 1],
        &[1, 1],
        &[7; 2_000],
    ] {
        assert_eq!(EncodedKey::from_bytes(wrong), Err(KeyDecodeError));
    }
}
