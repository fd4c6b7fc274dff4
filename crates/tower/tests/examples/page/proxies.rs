//! The section "Behind proxies".

use tollgate_tower::by::{self, ClientAddress};
use tollgate_tower::{ClientResolver, ForwardedBy};

fn client_behind_proxies() -> Result<ClientAddress, Box<dyn std::error::Error>> {
    // The load balancers are in 10.0.0.0/8 and append to X-Forwarded-For.
    // An IPv6 customer has a /56.
    let load_balancers = vec!["10.0.0.0/8".parse()?];
    let clients = ClientResolver::new(load_balancers, 56, ForwardedBy::XForwardedFor)?;
    Ok(by::client_address().behind(clients))
}

mod tests {
    use super::*;

    #[test]
    fn trusted_proxies_are_configured() {
        assert!(client_behind_proxies().is_ok());
    }
}
