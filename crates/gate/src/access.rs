//! Which requests may do what, by the tokens of the active configuration. The fronts find the token
//! in a request; this decides what it is good for.

use std::sync::Arc;

use tollgate_rules::Permission;

use super::active::ActiveConfig;

/// Why a request may not do what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The service requires a token, and the request has none.
    #[error("missing token")]
    MissingToken,
    /// The token is not one of the service's.
    #[error("unknown token")]
    UnknownToken,
    /// The token may not be used for this.
    #[error("the token `{token}` does not allow `{permission}`; add it to `allow` of the token")]
    NotPermitted {
        /// The name of the token.
        token: Arc<str>,
        /// What it does not allow.
        permission: Permission,
    },
}

/// Who sent a request: the index of its token, or none if no tokens are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller(Option<usize>);

impl Caller {
    /// The caller of a service without tokens, who may do everything.
    pub const ANYONE: Self = Self(None);
}

impl ActiveConfig {
    /// True when requests must bring a token.
    pub const fn requires_token(&self) -> bool {
        !self.config.server.access.tokens.is_empty()
    }

    /// Decides whether a request with this token may do something, and counts the request by the
    /// name of the token. Everything is allowed while no tokens are configured.
    pub fn authorize(
        &self,
        presented: Option<&[u8]>,
        permission: Permission,
    ) -> Result<(), AccessError> {
        let caller = self.require(presented, permission)?;
        self.count_accepted(caller);
        Ok(())
    }

    /// Requires a further permission of a request that was authorized and counted.
    pub fn require(
        &self,
        presented: Option<&[u8]>,
        permission: Permission,
    ) -> Result<Caller, AccessError> {
        let caller = self.identify(presented)?;
        self.permit(caller, permission)?;
        Ok(caller)
    }

    /// Who sent a request with this token.
    pub fn identify(&self, presented: Option<&[u8]>) -> Result<Caller, AccessError> {
        let access = &self.config.server.access;
        if access.tokens.is_empty() {
            return Ok(Caller::ANYONE);
        }

        let index = presented.and_then(|presented| access.find_token(presented));
        let Some(index) = index else {
            self.token_metrics.count_unauthorized();
            return Err(match presented {
                None => AccessError::MissingToken,
                Some(_) => AccessError::UnknownToken,
            });
        };
        Ok(Caller(Some(index)))
    }

    /// Decides whether a caller may do something.
    pub fn permit(&self, caller: Caller, permission: Permission) -> Result<(), AccessError> {
        let Caller(Some(index)) = caller else {
            return Ok(());
        };

        let token = &self.config.server.access.tokens[index];
        if token.permissions.contains(permission) {
            return Ok(());
        }
        self.token_metrics.tokens[index].count_forbidden(permission);
        Err(AccessError::NotPermitted {
            token: token.name.clone(),
            permission,
        })
    }

    /// Counts a request by the name of its token.
    pub fn count_accepted(&self, caller: Caller) {
        if let Caller(Some(index)) = caller {
            self.token_metrics.tokens[index].count_accepted();
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate::ManualClock;
    use tollgate_rules::Config;

    use super::*;
    use crate::Gate;
    use crate::metrics::MetricsPage;

    const SERVER: &str = "
server:
  tokens:
    - { name: shop, token: correct-horse-battery, allow: [check, refund] }
    - { name: next, token: correct-horse-staples }
";

    fn gate(server: &str) -> Gate {
        let limit = "limits: [{ name: a, key: [], algorithm: sliding_log, limit: 1, window: 1s }]";
        let config = Config::parse(&format!("{server}\n{limit}"), "t.yaml", &|_| None);
        Gate::with_clock(
            &ManualClock::default(),
            config.expect("a valid configuration"),
        )
    }

    fn page(gate: &Gate) -> String {
        let mut page = MetricsPage::new("t");
        gate.metrics().write(&mut page);
        page.into_text().expect("a page")
    }

    #[test]
    fn a_token_is_good_for_what_it_allows() {
        let gate = gate(SERVER);
        let authorize = |token: Option<&str>, permission| {
            let token = token.map(str::as_bytes);
            gate.active().authorize(token, permission)
        };

        let shop = Some("correct-horse-battery");
        assert_eq!(authorize(shop, Permission::Check), Ok(()));
        assert_eq!(authorize(shop, Permission::Refund), Ok(()));
        let next = Some("correct-horse-staples");
        assert_eq!(authorize(next, Permission::Check), Ok(()));
        let refused = authorize(next, Permission::Refund).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the token `next` does not allow `refund`; add it to `allow` of the token"
        );

        let missing = authorize(None, Permission::Check);
        assert_eq!(missing, Err(AccessError::MissingToken));
        for wrong in ["", "correct-horse-batter", "correct-horse-batteryy"] {
            let refused = authorize(Some(wrong), Permission::Check);
            assert_eq!(refused, Err(AccessError::UnknownToken), "{wrong}");
        }

        let page = page(&gate);
        for sample in [
            r#"t_requests_total{token="shop",result="accepted"} 2"#,
            r#"t_requests_total{token="next",result="accepted"} 1"#,
            r#"t_requests_total{token="next",result="forbidden"} 1"#,
            r#"t_requests_total{token="",result="unauthorized"} 4"#,
        ] {
            assert!(page.contains(sample), "{sample}\n{page}");
        }
    }

    #[test]
    fn without_tokens_everything_is_allowed_and_nothing_is_counted() {
        let gate = gate("");
        assert_eq!(gate.active().authorize(None, Permission::Refund), Ok(()));
        assert!(!page(&gate).contains("requests_total"));
    }

    #[test]
    fn a_token_that_stays_keeps_counting_after_a_reload() {
        let gate = gate(SERVER);
        let token = Some(&b"correct-horse-staples"[..]);
        assert!(gate.active().authorize(token, Permission::Check).is_ok());

        let shop = "    - { name: shop, token: correct-horse-battery, allow: [check, refund] }\n";
        let text = SERVER.replace(shop, "")
            + "limits: [{ name: a, key: [], algorithm: sliding_log, limit: 1, window: 1s }]";
        let config = Config::parse(&text, "t.yaml", &|_| None).expect("a valid configuration");
        gate.replace(config).expect("the same store");
        assert!(gate.active().authorize(token, Permission::Check).is_ok());

        let page = page(&gate);
        assert!(
            page.contains(r#"t_requests_total{token="next",result="accepted"} 2"#),
            "{page}"
        );
        assert!(!page.contains("shop"), "{page}");
    }
}
