//! Cookies, headers, queries and forwarding headers: no input causes a panic, the number of values
//! is bounded, and the value of a header is read again as itself.
#![no_main]

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::LazyLock;

use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use tollgate_subject::{
    ClientResolver, ForwardedBy, VALUES_MAX, cookie_values, header_values, joined_lines,
    query_values,
};

const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const SOURCES: [ForwardedBy; 3] = [
    ForwardedBy::XForwardedFor,
    ForwardedBy::Forwarded,
    ForwardedBy::XRealIp,
];

static RESOLVERS: LazyLock<Vec<ClientResolver>> = LazyLock::new(|| {
    let trusted = || vec!["10.0.0.0/8".parse().expect("a network")];
    let resolver = |source| ClientResolver::new(trusted(), 64, source).expect("valid settings");
    SOURCES.map(resolver).into()
});

fuzz_target!(|bytes: &[u8]| {
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let texts: Vec<Cow<'_, str>> = lines.iter().map(|line| String::from_utf8_lossy(line)).collect();

    let cookies = cookie_values("session", lines.iter().copied());
    assert!(cookies.as_slice().len() <= VALUES_MAX);

    for name in ["authorization", "x-api-key", "cookie"] {
        let values = header_values(name, texts.iter().cloned());
        assert!(values.as_slice().len() <= VALUES_MAX);
        // Credentials are read without their scheme, so reading them again would remove more.
        for value in values.as_slice().iter().filter(|_| name != "authorization") {
            let again = header_values(name, [value.clone()]);
            assert!(again.as_slice().contains(value), "{name}: {value:?} is read as {again:?}");
        }
        for text in &texts {
            assert!(joined_lines(name, text.clone()).as_slice().len() <= VALUES_MAX);
        }
    }

    for text in &texts {
        let values = query_values("user", text);
        assert!(values.as_slice().len() <= VALUES_MAX);
    }

    for (resolver, source) in RESOLVERS.iter().zip(SOURCES) {
        let mut headers = HeaderMap::new();
        for value in lines.iter().filter_map(|line| HeaderValue::from_bytes(line).ok()) {
            headers.append(source.as_str(), value);
        }
        resolver.address(PROXY, &headers);

        // What the client wrote to the left never changes what the trusted proxy appended.
        let last = HeaderValue::from_static(match source {
            ForwardedBy::Forwarded => "for=203.0.113.7",
            _ => "203.0.113.7",
        });
        if source != ForwardedBy::XRealIp {
            headers.append(source.as_str(), last);
            assert_eq!(resolver.address(PROXY, &headers).to_string(), "203.0.113.7");
        }
    }
});
