//! Where the HTTP port answers what.

/// Where forward-auth begins; what follows is the path that Envoy asks about.
pub(super) const FORWARD_AUTH: &str = "/v1/forward-auth";

/// What is answered at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Check,
    Peek,
    Refund,
    Release,
    ForwardAuth,
    Alive,
    Ready,
    Description,
}

/// Every path. Only forward-auth also answers below its own.
const ROUTES: [(&str, Route); 8] = [
    ("/v1/check", Route::Check),
    ("/v1/peek", Route::Peek),
    ("/v1/refund", Route::Refund),
    ("/v1/release", Route::Release),
    (FORWARD_AUTH, Route::ForwardAuth),
    ("/healthz", Route::Alive),
    ("/readyz", Route::Ready),
    ("/openapi.json", Route::Description),
];

impl Route {
    /// What is answered here, if anything.
    pub(super) fn of(path: &str) -> Option<Self> {
        let exact = ROUTES
            .iter()
            .find(|(own, _)| *own == path)
            .map(|(_, route)| *route);
        let below = || {
            path.strip_prefix(FORWARD_AUTH)
                .filter(|rest| rest.starts_with('/'))
        };
        exact.or_else(|| below().map(|_| Self::ForwardAuth))
    }

    /// Where it begins.
    pub(super) fn path(self) -> &'static str {
        ROUTES
            .iter()
            .find(|(_, route)| *route == self)
            .map_or("", |(path, _)| path)
    }
}

#[cfg(test)]
mod tests;
