use proptest::prelude::*;

use super::*;

fn cookies(lines: &[&[u8]]) -> Vec<String> {
    let values = cookie_values("session", lines.iter().copied());
    values.into_iter().map(Cow::into_owned).collect()
}

fn headers(name: &str, lines: &[&str]) -> Vec<String> {
    let values = header_values(name, lines.iter().map(|line| Cow::Borrowed(*line)));
    values.into_iter().map(Cow::into_owned).collect()
}

fn queries(query: &str) -> Vec<String> {
    let values = query_values("key", query).into_iter();
    values.map(Cow::into_owned).collect()
}

#[test]
fn all_spellings_of_a_cookie_are_one_value() {
    for line in [
        &b"session=abc"[..],
        b"session =abc",
        b" session= abc ",
        b"session\t=\tabc",
        b"session\xa0=\xa0abc\x85",
        b"a=1;session=abc;b=2",
        b"a=1;;;session=abc;",
        b"session=\"abc\"",
        b"session=%61bc",
        b"session=\"%61%62%63\"",
        b"session=\"\\141bc\"",
        b"session=\"\\a\\b\\c\"",
        b"%73ession=abc",
        b"session=; session=abc",
        b"session; session=abc",
        b"=x; session=abc",
        b"theme=caf\xc3\xa9; session=abc",
        b"theme=\xff\xfe; session=abc",
        b"$Version=1; session=abc; $Path=/",
        b"x=\"; session=abc; y=\"",
        b"session=abc; session=%61bc; session=\"abc\"",
        b"a=b session=abc",
        b"a=b,session=abc",
        b"\"a\"session=abc",
        b"Session=other; SESSION=other; session=abc; xsession=other; session2=other",
    ] {
        assert_eq!(cookies(&[line]), ["abc"], "{}", line.escape_ascii());
    }
}

#[test]
fn cookies_with_several_meanings_have_all_of_them() {
    for (lines, expected) in [
        (vec![&b"session=a; session=b"[..]], vec!["a", "b"]),
        (vec![b"session=a", b"theme=x; session=b"], vec!["a", "b"]),
        (vec![b"session=\"a;b\""], vec!["a"]),
        (vec![b"session=\"abc."], vec!["abc", "abc."]),
        (
            vec![b"session=a+b", b"session=a%2Bb; session=a%20b"],
            vec!["a b"],
        ),
        (vec![b"session=a%2", b"session=%"], vec!["a%2", "%"]),
        (vec![b"session=\xe9"], vec!["\u{fffd}"]),
        (
            vec![b"session=caf\xc3\xa9", b"session=caf%C3%A9"],
            vec!["café"],
        ),
        (vec![b"session=a=b"], vec!["a=b"]),
        (vec![b"session=abc x=1"], vec!["abc x=1", "abc"]),
        (vec![b"session=abc,x=1"], vec!["abc,x=1", "abc"]),
        (
            vec![b"session=j:\"abc\"", b"session=j:%20%22\\u0061b\\u0063%22"],
            vec!["j:\"abc\"", "abc", "j:", "j: \"\\u0061b\\u0063\""],
        ),
        (
            vec![b"session=j:\"\\ud83d\\ude00\\/\""],
            vec!["j:\"\\ud83d\\ude00\\/\"", "\u{1f600}/", "j:"],
        ),
        (vec![b"session=j:\"\\ud83d\""], vec!["j:\"\\ud83d\"", "j:"]),
        (
            vec![b"session=", b"session=\"\"", b"session=\"", b"session"],
            vec![],
        ),
        (vec![b"", b";", b"=", b"==", b"\"", b"%"], vec![]),
    ] {
        assert_eq!(cookies(&lines), expected, "{lines:?}");
    }
}

#[test]
fn all_spellings_of_a_query_parameter_are_one_value() {
    for query in [
        "key=a b",
        "key=a+b",
        "key=a%20b",
        "key=%61+b",
        "%6Bey=a+b",
        "page=2&key=a+b&x",
        "page=2;key=a+b;x",
        "x=1#&key=a+b",
        "?key=a+b",
        "key[]=a+b",
        "key%5B%5D=a+b",
        "key[0]=a+b",
        "key[x][y]=a+b",
        "[key]=a+b",
        "+key=a+b",
        "key%00x=a+b",
        "key=&key=a+b&key",
        "keys=other&Key=other&xkey=other&key=a+b",
    ] {
        assert_eq!(queries(query), ["a b"], "{query}");
    }
}

#[test]
fn repeated_query_parameters_have_all_values() {
    assert_eq!(queries("key=a&key=b"), ["a", "b"]);
    assert_eq!(queries("key=a;key=b"), ["a", "b"]);
    assert_eq!(queries("key=a&key[]=b&key=a"), ["a", "b"]);
    assert_eq!(queries("key=%ff"), ["\u{fffd}"]);
    assert_eq!(queries("key=a%"), ["a%"]);
    assert_eq!(queries("key"), [""; 0]);
}

#[test]
fn all_spellings_of_a_header_are_one_value() {
    for lines in [
        &["k-1"][..],
        &[" k-1 "],
        &["\tk-1\t"],
        &["k-1", "k-1"],
        &["", "k-1", " "],
    ] {
        assert_eq!(headers("x-api-key", lines), ["k-1"], "{lines:?}");
    }
    assert_eq!(headers("x-api-key", &["a", "b"]), ["a", "b"]);
    assert_eq!(headers("x-api-key", &["a, b"]), ["a, b"]);
}

#[test]
fn credentials_are_read_without_their_scheme() {
    for line in [
        "Bearer T",
        "bearer T",
        "BEARER T",
        "Bearer  T",
        "Bearer\tT",
        "Bearer T ",
        " Bearer T\t",
        "Token T",
        "T",
    ] {
        assert_eq!(headers("Authorization", &[line]), ["T"], "{line:?}");
    }

    for (line, expected) in [
        ("Bearer T x", &["T", "x"][..]),
        ("Bearer x y T", &["x", "T"]),
        ("Bearer x=1 T", &["x=1", "T"]),
        (
            "Token token=\"T\", nonce=\"1\"",
            &["token=\"T\",", "nonce=\"1\"", "T"],
        ),
        ("Basic YTpi==", &["YTpi"]),
        ("basic  YT!pi", &["YTpi"]),
        ("Basic YT pi", &["YTpi"]),
        ("Basic YTpiYg==", &["YTpiYg"]),
        ("Basic YTpiYh", &["YTpiYg"]),
        ("Basic \"YTpiYg\"", &["YTpiYg"]),
        ("Basic YTpiYg==junk", &["YTpiYg", "YTpiYgjung"]),
        ("Basic YTp-", &["YTo", "YTp+"]),
        ("Basic ?", &["?"]),
        ("Bearer", &["Bearer"]),
        ("Digest  a=\"b\", c=d", &["a=\"b\",", "c=d"]),
    ] {
        assert_eq!(headers("authorization", &[line]), expected, "{line:?}");
    }
}

#[test]
fn the_number_of_values_is_bounded() {
    let query = |count: usize| {
        let pairs: Vec<String> = (0..count).map(|n| format!("key={n}")).collect();
        pairs.join("&")
    };

    let most = query(VALUES_MAX);
    assert!(!query_values("key", &most).has_more());
    let too_many = query(VALUES_MAX + 1);
    let values = query_values("key", &too_many);
    assert!(values.has_more());
    assert_eq!(values.as_slice().len(), VALUES_MAX);
}

/// A way to write a byte in a quoted cookie.
fn spelt(byte: u8, spelling: u8) -> String {
    match spelling {
        0 => format!("%{byte:02x}"),
        1 => format!("%{byte:02X}"),
        2 => format!("\\{byte:03o}"),
        3 if !byte.is_ascii_digit() => format!("\\{}", char::from(byte)),
        _ => char::from(byte).to_string(),
    }
}

proptest! {
    #[test]
    fn a_cookie_does_not_depend_on_its_spelling(
        value in "[A-Za-z0-9._~-]{1,20}",
        spellings in proptest::collection::vec(0_u8..6, 20),
        space in "[ \t]{0,2}",
        noise in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let bytes = value.bytes().zip(spellings);
        let spelt: String = bytes.map(|(byte, spelling)| spelt(byte, spelling)).collect();
        let mut line: Vec<u8> = b"noise=".to_vec();
        line.extend(noise.iter().filter(|byte| **byte != b';'));
        line.extend(format!(";{space}session{space}={space}\"{spelt}\"{space}").bytes());

        prop_assert_eq!(cookies(&[&line]), [value]);
    }

    #[test]
    fn a_query_parameter_does_not_depend_on_its_spelling(
        value in "[A-Za-z0-9._~-]{1,20}",
        spellings in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(5)], 20),
        separator in "[&;]",
        noise in "[^&;#]{0,20}",
    ) {
        let bytes = value.bytes().zip(spellings);
        let spelt: String = bytes.map(|(byte, spelling)| spelt(byte, spelling)).collect();
        let query = format!("noise={noise}{separator}%6b%65y[]={spelt}{separator}");

        prop_assert_eq!(queries(&query), [value]);
    }

    #[test]
    fn no_input_panics_and_values_are_bounded(
        lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..20),
        text in "\\PC{0,80}",
    ) {
        let lines = lines.iter().map(|line| &line[..]);
        prop_assert!(cookie_values("a", lines.clone()).as_slice().len() <= VALUES_MAX);
        prop_assert!(query_values("a", &text).as_slice().len() <= VALUES_MAX);
        let lines = lines.map(String::from_utf8_lossy);
        prop_assert!(header_values("authorization", lines).as_slice().len() <= VALUES_MAX);
    }
}

/// JavaScript and Python trim the byte 0xA0, which is not UTF-8. A key of such bytes alone is a key.
#[test]
fn bytes_that_frameworks_trim_make_no_other_value() {
    let read = |name, bytes: &'static [u8]| {
        let line = String::from_utf8_lossy(bytes);
        header_values(name, [line]).as_slice().join("|")
    };
    for line in [
        &b"k"[..],
        b"k\xa0",
        b"\xa0k",
        b"\x0bk\x0c",
        "\u{a0}k".as_bytes(),
    ] {
        assert_eq!(read("x-api-key", line), "k");
    }
    for line in [
        &b"Bearer t"[..],
        b"Bearer\xa0t",
        b"Bearer t\xa0",
        b"\xa0bearer t",
    ] {
        assert_eq!(
            read("authorization", line),
            read("authorization", b"Bearer t")
        );
    }
    assert_eq!(read("x-api-key", b"\xff\xfe"), "\u{fffd}\u{fffd}");
}
