//! Resolves the address of a client behind a trusted proxy.
//!
//! Run it with `cargo run -p tollgate-subject --example client_address`.

use std::error::Error;
use std::net::IpAddr;

use http::HeaderMap;
use tollgate_subject::{ClientResolver, ForwardedBy};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // Requests through our proxies come from 10.0.0.0/8 and name the client in X-Forwarded-For.
    let resolver =
        ClientResolver::new(vec!["10.0.0.0/8".parse()?], 64, ForwardedBy::XForwardedFor)?;

    // The client sent a forged address; the proxy appended the one it saw.
    let mut headers = HeaderMap::new();
    headers.append("x-forwarded-for", "198.51.100.1, 2001:db8:1:2::7".parse()?);

    // Behind the proxy, the address that the proxy appended is the client.
    let proxy: IpAddr = "10.0.0.3".parse()?;
    let client = resolver.address(proxy, &headers);
    println!("client behind the proxy: {client}");
    assert_eq!(client, "2001:db8:1:2::7".parse::<IpAddr>()?);

    // One customer has a whole /64, so all its addresses count as one.
    let group = resolver.group(client);
    println!("counted as: {group}/64");
    assert_eq!(group, "2001:db8:1:2::".parse::<IpAddr>()?);

    // A direct connection is not trusted, so its header is ignored.
    let direct: IpAddr = "192.0.2.9".parse()?;
    println!("direct client: {}", resolver.address(direct, &headers));
    assert_eq!(resolver.address(direct, &headers), direct);

    Ok(())
}
