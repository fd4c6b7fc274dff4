use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A reply that owns its text.
#[derive(Clone, Debug)]
enum OwnedReply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Self>),
}

impl OwnedReply {
    /// The bytes that a server sends.
    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Simple(line) => format!("+{line}\r\n").into_bytes(),
            Self::Error(line) => format!("-{line}\r\n").into_bytes(),
            Self::Integer(number) => format!(":{number}\r\n").into_bytes(),
            Self::Bulk(text) => [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat(),
            Self::Null => b"$-1\r\n".to_vec(),
            Self::Array(list) => {
                let items: Vec<u8> = list.iter().flat_map(Self::encode).collect();
                [format!("*{}\r\n", list.len()).as_bytes(), &items].concat()
            }
        }
    }

    /// The value that is parsed from those bytes.
    fn value(&self) -> RespValue<'_> {
        match self {
            Self::Simple(line) => RespValue::Text(line.as_bytes()),
            Self::Error(line) => RespValue::Error(line.as_bytes()),
            Self::Integer(number) => RespValue::Integer(*number),
            Self::Bulk(text) => RespValue::Text(text),
            Self::Null => RespValue::Null,
            Self::Array(list) => RespValue::Array(list.iter().map(Self::value).collect()),
        }
    }
}

fn read(bytes: &[u8]) -> Result<Option<RespValue<'_>>, ProtocolError> {
    Ok(read_value(bytes)?.map(|(value, _)| value))
}

fn replies() -> impl Strategy<Value = OwnedReply> {
    let line =
        || vec(prop::char::range(' ', '~'), 0..20).prop_map(|chars| chars.into_iter().collect());

    let leaf = prop_oneof![
        line().prop_map(OwnedReply::Simple),
        line().prop_map(OwnedReply::Error),
        any::<i64>().prop_map(OwnedReply::Integer),
        vec(any::<u8>(), 0..40).prop_map(OwnedReply::Bulk),
        Just(OwnedReply::Null),
    ];
    leaf.prop_recursive(4, 20, 5, |inner| {
        vec(inner, 0..5).prop_map(OwnedReply::Array)
    })
}

proptest! {
    /// A reply that is received in two parts is parsed once and completely; the bytes after it
    /// remain.
    #[test]
    fn a_reply_in_two_parts_is_parsed_once(
        reply in replies(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = reply.encode();
        let length = bytes.len();
        prop_assert_eq!(read_value(&bytes[..cut.index(length)]), Ok(None));

        bytes.extend_from_slice(b"+next");
        prop_assert_eq!(read_value(&bytes), Ok(Some((reply.value(), length))));
    }

    /// Arbitrary bytes never cause a panic.
    #[test]
    fn arbitrary_bytes_do_not_panic(
        bytes in vec(prop::sample::select(b"+-:$*0123456789\r\nab".to_vec()), 0..60),
    ) {
        let mut rest = &bytes[..];
        while let Ok(Some((_, length))) = read_value(rest) {
            rest = &rest[length..];
        }
    }
}

#[test]
fn commands_are_arrays_of_bulk_strings() {
    let mut out = BytesMut::new();
    write_command(&mut out, &[b"SET", b"key", b"0123456789"]);
    assert_eq!(
        &out[..],
        b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$10\r\n0123456789\r\n"
    );
}

#[test]
fn announced_lengths_are_bounded() {
    assert_eq!(read(b"$999999999999\r\n"), Err(ProtocolError::TooLong));
    assert_eq!(read(b"*1000000000\r\n"), Err(ProtocolError::TooLong));
    assert_eq!(
        read(&[b"+".as_slice(), &vec![b'a'; LINE_MAX + 1]].concat()),
        Err(ProtocolError::TooLong)
    );
    assert_eq!(
        read(b"$99999999999999999999999\r\n"),
        Err(ProtocolError::Malformed)
    );
}

#[test]
fn nesting_is_bounded() {
    assert_eq!(
        read("*1\r\n".repeat(9).as_bytes()),
        Err(ProtocolError::Malformed)
    );
}

#[test]
fn malformed_replies_are_errors() {
    for bytes in [
        &b"HTTP/1.1 400 Bad Request\r\n"[..],
        b"\0",
        b"$-2\r\n",
        b":x\r\n",
        b"+a\rb",
        b"$1\r\nabc",
    ] {
        assert_eq!(read(bytes), Err(ProtocolError::Malformed), "{bytes:?}");
    }

    assert_eq!(read(b"*-1\r\n"), Ok(Some(RespValue::Null)));
    assert_eq!(read(b"+OK\r\n"), Ok(Some(RespValue::Text(b"OK"))));
}
