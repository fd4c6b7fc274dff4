//! Fields of other rate limiters, with the field that has their meaning here: of
//! envoyproxy/ratelimit, Limitador, nginx, Kong, Traefik, express-rate-limit,
//! rate-limiter-flexible, resilience4j, Spring Cloud Gateway and others. Most files begin as a copy
//! of one that worked elsewhere.

use super::names::{ALERTS, AUDIT_LOG, BLOCK, EXEMPT, LOCKOUT, ROTATE, WEBHOOK};

/// The sections that other limiters do not have.
const OWN_SECTIONS: [&[&str]; 7] = [ALERTS, AUDIT_LOG, BLOCK, EXEMPT, LOCKOUT, ROTATE, WEBHOOK];

/// Names in lower case without `_` and `-`, separated by spaces, with the field and what to write.
const FOREIGN: &[(&str, &str, &str)] = &[
    (
        "ratelimiter ratelimiters ratelimit ratelimits rules descriptors policies policy buckets \
         zones throttlers throttle domain",
        "limits",
        "`limits`, a list of limits; `tollgate import` converts files of other limiters",
    ),
    (
        "maxrequests maxvalue requestsperunit points max limitforperiod maxhits numrequests \
         threshold requestlimit maxcalls permitlimit hits quota requests",
        "limit",
        "`limit`, the units per window",
    ),
    (
        "seconds windowms windowsec windowseconds windowsize duration period interval timewindow \
         limitrefreshperiod windowlength windowinseconds timeframe perseconds per expiresin \
         periodsec",
        "window",
        "`window` with its unit, such as `window: 1m`",
    ),
    (
        "burst burstsize burstcapacity maxburst bucketsize bucketcapacity burstlimit maxtokens \
         tokensmax tokenlimit",
        "capacity",
        "`capacity`, the largest burst",
    ),
    (
        "refillratepersecond refillpersecond refilltokens replenishrate tokenspersecond fillrate \
         tokensperfill tokensperperiod tokensperinterval requestspersecond rps rate average \
         ratepersecond refill",
        "refill_rate",
        "`refill_rate` with its unit, such as `refill_rate: 10/s`",
    ),
    (
        "leakratepersecond leakpersecond drainrate drainpersecond leak",
        "leak_rate",
        "`leak_rate` with its unit, such as `leak_rate: 10/s`",
    ),
    (
        "nodelay delay queue queuelimit",
        "mode",
        "`mode` of a leaky bucket: `meter` denies immediately, `queue` tells requests to wait",
    ),
    (
        "maxconcurrent maxconcurrentcalls maxinflight inflightlimit limitconn maxparallel amount",
        "limit",
        "`limit` with `algorithm: concurrency`",
    ),
    (
        "fallbackpolicy fallback faulttolerant failopen failclosed failuremode failuremodedeny \
         failurepolicy onfailure onerror skiponerror passonstoreerror insurancelimiter \
         onstoreerror",
        "on_store_failure",
        "`on_store_failure`: allow, deny or local",
    ),
    (
        "includeretryafter sendretryafter retryafterheader",
        "retry_after",
        "`headers: { retry_after: true }`",
    ),
    (
        "includeheaders hideclientheaders standardheaders legacyheaders headersenabled \
         addheaders responseheaders draftpolliratelimitheaders xratelimitheaders",
        "headers",
        "`headers`, which lists what is sent",
    ),
    (
        "shadowmode dryrun reportonly limitreqdryrun testmode",
        "shadow",
        "`shadow: true`: count and report, but never deny",
    ),
    (
        "keygenerator keyby limitby keyresolver keyfunc variables sourcecriterion identifier \
         partitionby groupby keys",
        "key",
        "`key`, a list of attributes, such as `key: [client_ip]`",
    ),
    (
        "conditions path paths route routes method methods host hosts url filter predicates",
        "match",
        "`match`, such as `match: { method: POST, path: /auth/login }`",
    ),
    ("id limitname ratelimitname title label", "name", "`name`"),
    (
        "strategy limitertype limiter algo",
        "algorithm",
        "`algorithm`, such as `algorithm: sliding_window`",
    ),
    (
        "weight hitsaddend tokensperrequest requestedtokens pointstoconsume consume",
        "cost",
        "`cost`: a number, or `{ by: ATTRIBUTE }`",
    ),
    (
        "denyemptykey skipmissing skipifmissing ignoremissing",
        "optional",
        "`optional: true`: a request without the key skips the limit",
    ),
    ("plan plans", "tiers", "`tiers`, and `tier` in a limit"),
    (
        "redis backend storage storagetype rediscfg redisconfig datastore storeclient",
        "store",
        "`store`, such as `store: { type: redis, endpoints: [\"redis://127.0.0.1:6379\"] }`",
    ),
    (
        "url urls uri redisurl redishost redisport redisuri address addresses nodes host hosts \
         servers",
        "endpoints",
        "`endpoints`, a list of URLs, such as `[\"redis://127.0.0.1:6379\"]`",
    ),
    (
        "keyprefix redisprefix namespace cachekeyprefix",
        "prefix",
        "`prefix` of `store`",
    ),
    (
        "sentinelmaster mastername mastergroup",
        "master",
        "`master` of `store`",
    ),
    (
        "maxentries maxkeys cachesize localcachesize zonesize maxcachedcounters",
        "keys_max",
        "`keys_max` of `store`",
    ),
    (
        "timeoutms redistimeout responsetimeout sockettimeout",
        "timeout",
        "`timeout` of `store` with its unit, such as `timeout: 10ms`",
    ),
    (
        "errormessage message errorbody responsebody rejectedmessage",
        "denial",
        "`denial`, the body of denials",
    ),
    (
        "trustproxy trustedproxies realipheader forwardedheader ipstrategy setrealipfrom",
        "client_ip",
        "`client_ip: { trusted_proxies: [..], header: .. }`",
    ),
    (
        "errorcode statuscode limitreqstatus limitconnstatus rejectedcode ratelimitedstatus",
        "",
        "leave it out: denials have the status 429, and forward-auth takes `?deny_status=`",
    ),
    (
        "unlimited",
        "",
        "leave it out: requests that match no limit are not limited",
    ),
];

/// The meaning of a name that another limiter uses: the field of the same meaning, if the file may
/// have it in this place, and what to write, for a message. Case, `_` and `-` do not matter.
///
/// `known` are the fields that the file may have in this place. Where a name has several meanings,
/// the one that is allowed there is preferred. Other limiters have no lockouts, lists or alerts
/// like ours, so a name there is a mistake of its own.
pub(super) fn find(name: &str, known: &[&str]) -> Option<(Option<&'static str>, String)> {
    if name.len() > 64 || OWN_SECTIONS.contains(&known) {
        return None;
    }
    let mut wanted = name.to_ascii_lowercase();
    wanted.retain(|c| !matches!(c, '_' | '-'));

    let meanings = FOREIGN
        .iter()
        .filter(|(names, ..)| names.split_whitespace().any(|name| name == wanted));
    let (_, field, advice) = meanings.max_by_key(|(_, field, _)| known.contains(field))?;
    let here = if advice.starts_with('`') {
        "here it is "
    } else {
        ""
    };
    Some((
        Some(*field).filter(|field| known.contains(field)),
        format!("{here}{advice}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::names::{LIMIT, ROOT, STORE};

    #[test]
    fn spelling_does_not_matter_and_the_place_decides() {
        for (name, known, field) in [
            ("refillRatePerSecond", LIMIT, Some("refill_rate")),
            ("windowMs", LIMIT, Some("window")),
            ("fallback_policy", LIMIT, Some("on_store_failure")),
            ("burst", LIMIT, Some("capacity")),
            ("host", STORE, Some("endpoints")),
            ("host", LIMIT, Some("match")),
            ("burst", ROOT, None),
            ("rate_limiter", ROOT, Some("limits")),
        ] {
            let found = find(name, known).expect("a known name");
            assert_eq!(found.0, field, "{name}");
        }
        assert_eq!(find("wndow", LIMIT), None);
        assert_eq!(find("duration", LOCKOUT), None);
    }

    /// A name of ours in this table would never be used, or hide a mistake.
    #[test]
    fn every_name_is_normalised_and_every_field_exists() {
        let ours = [ROOT, LIMIT, STORE, crate::config::names::HEADERS].concat();
        for (names, field, _) in FOREIGN {
            assert!(field.is_empty() || ours.contains(field), "{field}");
            let is_normal = |c: char| c.is_ascii_lowercase() || c.is_ascii_whitespace();
            assert!(names.chars().all(is_normal), "{names}");
            for name in names.split_whitespace() {
                assert!(!LIMIT.contains(&name) || name == "limit", "{name}");
            }
        }
    }
}
