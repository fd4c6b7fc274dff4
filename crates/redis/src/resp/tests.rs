use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn read(bytes: &[u8]) -> Result<Option<Reply>, Garbage> {
    read_reply(&mut BytesMut::from(bytes))
}

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// A reply as a server would write it.
fn written(reply: &Reply) -> Vec<u8> {
    match reply {
        Reply::Status(line) => [b"+", &line[..], b"\r\n"].concat(),
        Reply::Error(line) => [b"-", &line[..], b"\r\n"].concat(),
        Reply::Number(number) => format!(":{number}\r\n").into_bytes(),
        Reply::Text(text) => [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat(),
        Reply::Nothing => b"$-1\r\n".to_vec(),
        Reply::List(list) => {
            let items: Vec<u8> = list.iter().flat_map(written).collect();
            [format!("*{}\r\n", list.len()).as_bytes(), &items].concat()
        }
    }
}

fn replies() -> impl Strategy<Value = Reply> {
    let line = || {
        vec(prop::char::range(' ', '~'), 0..20)
            .prop_map(|chars| Bytes::from(String::from_iter(chars)))
    };
    let leaf = prop_oneof![
        line().prop_map(Reply::Status),
        line().prop_map(Reply::Error),
        any::<i64>().prop_map(Reply::Number),
        vec(any::<u8>(), 0..40).prop_map(|bytes| Reply::Text(bytes.into())),
        Just(Reply::Nothing),
    ];
    leaf.prop_recursive(4, 20, 5, |inner| vec(inner, 0..5).prop_map(Reply::List))
}

proptest! {
    /// However a reply is cut up on the way, it arrives once, whole, and leaves what follows it.
    #[test]
    fn replies_arrive_whole(reply in replies(), cut in any::<prop::sample::Index>()) {
        let bytes = written(&reply);
        let cut = cut.index(bytes.len());
        let mut arrived = BytesMut::from(&bytes[..cut]);
        prop_assert_eq!(read_reply(&mut arrived), Ok(None));
        arrived.extend_from_slice(&bytes[cut..]);
        arrived.extend_from_slice(b"+next");
        prop_assert_eq!(read_reply(&mut arrived), Ok(Some(reply)));
        prop_assert_eq!(&arrived[..], b"+next");
    }

    /// Whatever arrives, nothing panics.
    #[test]
    fn garbage_is_refused(bytes in vec(prop::sample::select(b"+-:$*0123456789\r\nab".to_vec()), 0..60)) {
        let mut arrived = BytesMut::from(&bytes[..]);
        while let Ok(Some(_)) = read_reply(&mut arrived) {}
    }
}

#[test]
fn commands_are_lists_of_strings() {
    let mut out = BytesMut::new();
    write_command(&mut out, &[b"SET", b"key", b"0123456789"]);
    assert_eq!(
        &out[..],
        b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$10\r\n0123456789\r\n"
    );
}

#[test]
fn giants_are_refused_before_they_arrive() {
    assert_eq!(read(b"$999999999999\r\n"), Err(Garbage::TooLong));
    assert_eq!(read(b"*1000000000\r\n"), Err(Garbage::TooLong));
    assert_eq!(
        read(&[b"+".as_slice(), &vec![b'a'; LINE_MAX + 1]].concat()),
        Err(Garbage::TooLong)
    );
    assert_eq!(
        read(b"$99999999999999999999999\r\n"),
        Err(Garbage::NotAReply)
    );
}

#[test]
fn deep_nests_are_refused() {
    assert_eq!(read("*1\r\n".repeat(9).as_bytes()), Err(Garbage::NotAReply));
}

#[test]
fn what_is_not_a_reply_is_refused() {
    for bytes in [
        &b"HTTP/1.1 400 Bad Request\r\n"[..],
        b"\0",
        b"$-2\r\n",
        b":x\r\n",
        b"+a\rb",
        b"$1\r\nabc",
    ] {
        assert_eq!(read(bytes), Err(Garbage::NotAReply), "{bytes:?}");
    }
    assert_eq!(read(b"*-1\r\n"), Ok(Some(Reply::Nothing)));
    assert_eq!(read(b"+OK\r\n"), Ok(Some(Reply::Status(text("OK")))));
}
