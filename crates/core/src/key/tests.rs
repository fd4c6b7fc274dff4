use std::collections::HashMap;
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
    let mut buffer = KeyBuffer::new();
    Key::new(&prefix, Parts::from_key(key, &mut buffer).unwrap()).to_bytes()
}

fn rejection(key: &(impl ToKey + ?Sized)) -> KeyError {
    Parts::from_key(key, &mut KeyBuffer::new())
        .err()
        .expect("the key is invalid")
}

/// One part of any type, for random keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RandomPart {
    Text(String),
    Bytes(Vec<u8>),
    Number(u64),
    Address(IpAddr),
    Hash([u8; 2]),
}

struct PartSequence<'a>(&'a [RandomPart]);

impl ToKey for PartSequence<'_> {
    fn write(&self, parts: &mut KeyParts) {
        for part in self.0 {
            match part {
                RandomPart::Text(text) => parts.text(text),
                RandomPart::Bytes(bytes) => parts.bytes(bytes),
                RandomPart::Number(number) => parts.number(*number),
                RandomPart::Address(address) => parts.address(*address),
                RandomPart::Hash(value) => {
                    parts.hashed(KeyHasher::new(&[7; 32]).unwrap().hash(value));
                }
            }
        }
    }

    fn as_text(&self) -> Option<&str> {
        match self.0 {
            [RandomPart::Text(text)] => Some(text),
            _ => None,
        }
    }
}

/// Values from a small alphabet that includes the tags, to provoke collisions.
fn part() -> impl Strategy<Value = RandomPart> {
    prop_oneof![
        "[a\u{1}\u{2}\u{3}\u{0}]{1,6}".prop_map(RandomPart::Text),
        proptest::collection::vec(0..7u8, 1..6).prop_map(RandomPart::Bytes),
        (0..4u64).prop_map(RandomPart::Number),
        (0..3u32).prop_map(|bits| RandomPart::Address(Ipv4Addr::from(bits).into())),
        (0..3u128).prop_map(|bits| RandomPart::Address(Ipv6Addr::from(bits + (1 << 100)).into())),
        any::<bool>().prop_map(|one| RandomPart::Hash([u8::from(one); 2])),
    ]
}

proptest! {
    #[test]
    fn different_parts_have_different_encodings_and_hashes(
        keys in proptest::collection::vec(proptest::collection::vec(part(), 0..4), 2..40),
    ) {
        let prefix = prefix("api", bucket());
        let (mut seen_bytes, mut seen_hashes) = (HashMap::new(), HashMap::new());

        for parts in &keys {
            let mut buffer = KeyBuffer::new();
            let sequence = PartSequence(parts);
            let key = Key::new(&prefix, Parts::from_key(&sequence, &mut buffer).unwrap());
            prop_assert_eq!(*seen_bytes.entry(key.to_bytes()).or_insert(parts), parts);
            let (hashed, digest) = key.hash_input();
            let input = (hashed.to_vec(), digest);
            prop_assert_eq!(*seen_hashes.entry(input).or_insert(parts), parts);
        }
    }

    #[test]
    fn no_prefix_is_the_beginning_of_another(a in "[a-c]{1,4}", b in "[a-c]{1,4}") {
        let (first, second) = (prefix(&a, bucket()), prefix(&b, bucket()));
        prop_assert_eq!(first.to_bytes().starts_with(&second.to_bytes()), a == b);
    }
}

#[test]
fn boundaries_and_types_of_parts_are_significant() {
    assert_ne!(bytes(&("a", "bc")), bytes(&("ab", "c")));
    assert_ne!(bytes(&("a", "b")), bytes("ab"));
    assert_ne!(bytes("7"), bytes(&7u64));
    assert_ne!(bytes("ab"), bytes(&b"ab"[..]));
    assert_eq!(bytes(&("a", 7u32)), bytes(&("a", 7u64)));
}

#[test]
fn a_text_is_the_same_key_in_every_type() {
    assert_eq!(bytes("ann"), bytes(&String::from("ann")));
    assert_eq!(bytes(&("ann",)), bytes("ann"));
    assert_eq!(bytes(&Some("ann")), bytes("ann"));

    // The form must be the same too, because the memory store hashes it.
    let (mut first, mut second, mut third) = (KeyBuffer::new(), KeyBuffer::new(), KeyBuffer::new());
    assert!(matches!(
        Parts::from_key(&Some("ann"), &mut third),
        Ok(Parts::Text("ann"))
    ));
    assert!(matches!(
        Parts::from_key(&("ann",), &mut first),
        Ok(Parts::Text("ann"))
    ));
    assert!(matches!(
        Parts::from_key(&("ann", ()), &mut second),
        Ok(Parts::Text("ann"))
    ));
}

#[test]
fn an_ipv4_mapped_address_equals_the_ipv4_address() {
    let mapped: Ipv6Addr = "::ffff:203.0.113.7".parse().unwrap();
    assert_eq!(bytes(&mapped), bytes(&Ipv4Addr::new(203, 0, 113, 7)));
}

#[test]
fn limits_and_shapes_have_separate_counters() {
    let window = |secs| SlidingWindow::new(5, Duration::from_secs(secs)).unwrap();
    let fixed = FixedWindow::new(5, Duration::from_secs(60)).unwrap();
    let prefixes = [
        prefix("api", window(60)),
        prefix("api", window(61)),
        prefix("api", fixed),
        prefix("api2", window(60)),
        prefix("api", bucket()),
    ];

    let distinct: std::collections::HashSet<_> =
        prefixes.iter().map(|prefix| prefix.digest).collect();
    assert_eq!(distinct.len(), prefixes.len());

    let more = SlidingWindow::new(500, Duration::from_secs(60)).unwrap();
    assert_eq!(
        prefix("api", more),
        prefixes[0],
        "another quota keeps the counter"
    );
}

#[test]
fn an_empty_or_missing_part_is_rejected() {
    assert_eq!(rejection(""), KeyError::Empty);
    assert_eq!(rejection(&("tenant", "")), KeyError::Empty);
    assert_eq!(rejection(&None::<u64>), KeyError::Empty);
    assert!(bytes(&()).len() > "api".len());
}

#[test]
fn long_keys_are_rejected_with_their_length() {
    let long = "x".repeat(KEY_MAX - 2);
    assert_eq!(
        rejection(long.as_str()),
        KeyError::TooLong { found: KEY_MAX - 2 }
    );

    assert_ne!(
        bytes(&"x".repeat(KEY_MAX - 3)),
        bytes(&"y".repeat(KEY_MAX - 3)),
        "long keys are not truncated"
    );
    assert!(
        matches!(rejection(&(long.as_str(), 1u64)), KeyError::TooLong { found } if found > KEY_MAX)
    );

    let longer = "x".repeat(70_000);
    assert!(matches!(rejection(&(longer, 1u64)), KeyError::TooLong { found } if found > 70_000));
    assert!(
        rejection(long.as_str())
            .to_string()
            .contains("1022 bytes; must be at most 1024")
    );
    assert!(Parts::from_key(&long[1..], &mut KeyBuffer::new()).is_ok());
}

#[test]
fn hashes_depend_on_the_secret_which_is_not_shown() {
    let (one, other) = (
        KeyHasher::new(&[1; 16]).unwrap(),
        KeyHasher::new(&[2; 16]).unwrap(),
    );
    assert_ne!(one.hash(b"api-key"), other.hash(b"api-key"));
    assert_ne!(one.hash(b"api-key"), one.hash(b"api-kez"));
    assert_eq!(format!("{one:?}"), "KeyHasher(..)");
    let short = KeyHasher::new(b"short").unwrap_err().to_string();
    assert!(short.contains("5 bytes; must be at least 16"), "{short}");
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
fn an_encoded_key_identifies_the_same_counter() {
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
fn an_encoded_key_decodes_to_its_parts() {
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
fn invalid_encoded_keys_are_rejected() {
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
