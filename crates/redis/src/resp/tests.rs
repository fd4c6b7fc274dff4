use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn read(bytes: &[u8]) -> Result<Option<RespValue>, ProtocolError> {
    read_value(&mut BytesMut::from(bytes))
}

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// Encodes a reply as a server does.
fn encode(reply: &RespValue) -> Vec<u8> {
    match reply {
        RespValue::Simple(line) => [b"+", &line[..], b"\r\n"].concat(),
        RespValue::Error(line) => [b"-", &line[..], b"\r\n"].concat(),
        RespValue::Integer(number) => format!(":{number}\r\n").into_bytes(),
        RespValue::Bulk(text) => {
            [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
        }
        RespValue::Null => b"$-1\r\n".to_vec(),
        RespValue::Array(list) => {
            let items: Vec<u8> = list.iter().flat_map(encode).collect();
            [format!("*{}\r\n", list.len()).as_bytes(), &items].concat()
        }
    }
}

fn replies() -> impl Strategy<Value = RespValue> {
    let line = || {
        vec(prop::char::range(' ', '~'), 0..20)
            .prop_map(|chars| Bytes::from(String::from_iter(chars)))
    };

    let leaf = prop_oneof![
        line().prop_map(RespValue::Simple),
        line().prop_map(RespValue::Error),
        any::<i64>().prop_map(RespValue::Integer),
        vec(any::<u8>(), 0..40).prop_map(|bytes| RespValue::Bulk(bytes.into())),
        Just(RespValue::Null),
    ];
    leaf.prop_recursive(4, 20, 5, |inner| {
        vec(inner, 0..5).prop_map(RespValue::Array)
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
        let bytes = encode(&reply);
        let cut = cut.index(bytes.len());
        let mut received = BytesMut::from(&bytes[..cut]);
        prop_assert_eq!(read_value(&mut received), Ok(None));

        received.extend_from_slice(&bytes[cut..]);
        received.extend_from_slice(b"+next");
        prop_assert_eq!(read_value(&mut received), Ok(Some(reply)));
        prop_assert_eq!(&received[..], b"+next");
    }

    /// Arbitrary bytes never cause a panic.
    #[test]
    fn arbitrary_bytes_do_not_panic(
        bytes in vec(prop::sample::select(b"+-:$*0123456789\r\nab".to_vec()), 0..60),
    ) {
        let mut received = BytesMut::from(&bytes[..]);
        while let Ok(Some(_)) = read_value(&mut received) {}
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
    assert_eq!(read(b"+OK\r\n"), Ok(Some(RespValue::Simple(text("OK")))));
}
