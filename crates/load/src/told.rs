//! What an answer says: let through or not, by which limits, and when to come back.

use std::borrow::Cow;

use serde::Deserialize;

use crate::wire::Answer;

/// What an answer of the service, or of any application, comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Told<'a> {
    pub(crate) is_allowed: bool,
    pub(crate) is_degraded: bool,
    /// How long until it would pass; nothing when that is not said, or never.
    pub(crate) retry_after_ms: Option<u64>,
    /// The limits that can refuse, as far as they are named.
    pub(crate) limits: Vec<LimitTold<'a>>,
    /// A place to give back.
    pub(crate) permit: Option<Cow<'a, str>>,
}

/// What one limit says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LimitTold<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) limit: u64,
    /// Rounded up to whole seconds.
    pub(crate) window_s: Option<u64>,
    /// How long until its budget is full again, rounded up.
    pub(crate) reset_after_ms: Option<u64>,
    /// A failure policy answered in place of the store.
    pub(crate) is_fallback: bool,
}

impl LimitTold<'_> {
    /// What stands for the limits of an answer that names none, where somebody has said what is
    /// allowed.
    pub(crate) const fn nameless(is_fallback: bool) -> Self {
        let name = Cow::Borrowed("limit");
        Self {
            name,
            limit: 0,
            window_s: None,
            reset_after_ms: None,
            is_fallback,
        }
    }
}

/// The body of a decision.
#[derive(Debug, Deserialize)]
struct Decision<'a> {
    allowed: bool,
    #[serde(default)]
    degraded: bool,
    #[serde(borrow, default)]
    limits: Vec<Member<'a>>,
    #[serde(borrow, default)]
    permit: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
struct Member<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    limit: u64,
    #[serde(default)]
    reset_after_ms: Option<u64>,
    #[serde(default)]
    retry_after_ms: Option<u64>,
    #[serde(default)]
    never: bool,
    #[serde(default)]
    shadow: bool,
    #[serde(borrow, default)]
    fallback: Option<Cow<'a, str>>,
}

/// A decision of the service; nothing when the answer is none.
pub(crate) fn decision<'a>(answer: &Answer<'a>) -> Option<Told<'a>> {
    let decision: Decision<'a> = serde_json::from_slice(answer.body).ok()?;
    let policies = answer
        .head
        .policy
        .as_deref()
        .map(policies)
        .unwrap_or_default();
    let enforced = || decision.limits.iter().filter(|limit| !limit.shadow);
    let never = enforced().any(|limit| limit.never);
    let retry_after_ms = enforced()
        .filter_map(|limit| limit.retry_after_ms)
        .max()
        .filter(|_| !never);
    let limits = enforced().map(|limit| LimitTold {
        name: limit.name.clone(),
        limit: limit.limit,
        window_s: policies
            .iter()
            .find(|policy| policy.name == limit.name)
            .and_then(|policy| policy.window_s),
        reset_after_ms: limit.reset_after_ms,
        is_fallback: limit.fallback.is_some(),
    });
    let limits = limits.collect();
    let (is_allowed, is_degraded) = (decision.allowed, decision.degraded);
    Some(Told {
        is_allowed,
        is_degraded,
        retry_after_ms,
        limits,
        permit: decision.permit,
    })
}

/// What any application says with its status and header fields; nothing when it failed.
pub(crate) fn status(answer: &Answer<'_>) -> Option<Told<'static>> {
    let head = &answer.head;
    let is_allowed = matches!(head.status, 200..=399);
    if !is_allowed && head.status != 429 {
        return None;
    }
    Some(Told {
        is_allowed,
        is_degraded: head.is_fallback,
        retry_after_ms: head
            .retry_after_s
            .filter(|_| !is_allowed)
            .map(|secs| secs.saturating_mul(1_000)),
        limits: head.policy.as_deref().map(policies).unwrap_or_default(),
        permit: None,
    })
}

/// The members of `RateLimit-Policy`: `"burst";q=100;w=60, "daily";q=1000;w=86400`. Those that say
/// nothing usable are left out.
fn policies(field: &[u8]) -> Vec<LimitTold<'static>> {
    let text = std::str::from_utf8(field).unwrap_or_default();
    let member = |member: &str| {
        let (name, parameters) = member.trim().strip_prefix('"')?.split_once('"')?;
        let parameter = |wanted: &str| {
            let mut all = parameters
                .split(';')
                .filter_map(|parameter| parameter.trim().split_once('='));
            all.find(|(name, _)| *name == wanted)?.1.parse().ok()
        };
        let (limit, window_s) = (parameter("q")?, parameter("w"));
        let name = Cow::Owned(name.to_owned());
        Some(LimitTold {
            name,
            limit,
            window_s,
            reset_after_ms: None,
            is_fallback: false,
        })
    };
    text.split(',').filter_map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Head;

    fn answer<'a>(status: u16, policy: &str, body: &'a str) -> Answer<'a> {
        let policy = Some(policy.as_bytes().to_vec()).filter(|policy| !policy.is_empty());
        let mut head = Head::default();
        (head.status, head.policy) = (status, policy);
        Answer {
            head,
            body: body.as_bytes(),
        }
    }

    #[test]
    fn a_decision_is_read_with_the_windows_of_its_header() {
        let body = r#"{"allowed":false,"source":"store","degraded":false,"wait_ms":0,"violated-policies":["a"],"limits":[
            {"name":"a","limit":5,"remaining":0,"reset_after_ms":9,"retry_after_ms":7},
            {"name":"b","limit":9,"remaining":1,"reset_after_ms":9,"retry_after_ms":null,"fallback":"allow"},
            {"name":"c","limit":1,"remaining":0,"reset_after_ms":9,"retry_after_ms":90,"shadow":true}]}"#;
        let answer = answer(429, r#""a";q=5;w=60, "b";q=9"#, body);
        let told = decision(&answer).unwrap();
        assert_eq!(
            (told.is_allowed, told.retry_after_ms, told.limits.len()),
            (false, Some(7), 2)
        );
        assert_eq!(
            (told.limits[0].window_s, told.limits[1].window_s),
            (Some(60), None)
        );
        assert!(told.limits[1].is_fallback && !told.limits[0].is_fallback);
    }

    #[test]
    fn what_never_passes_has_no_time() {
        let body = r#"{"allowed":false,"limits":[{"name":"a","limit":5,"never":true},{"name":"b","limit":5,"retry_after_ms":3}]}"#;
        assert_eq!(
            decision(&answer(429, "", body)).unwrap().retry_after_ms,
            None
        );
    }

    #[test]
    fn whatever_is_no_decision_is_none() {
        for body in [
            "",
            "{}",
            "[]",
            "7",
            r#"{"allowed":"yes"}"#,
            r#"{"allowed":true,"limits":[{}]}"#,
            "<html>",
        ] {
            assert_eq!(decision(&answer(200, "", body)), None, "{body}");
        }
    }

    #[test]
    fn applications_speak_by_their_status() {
        assert!(status(&answer(302, "", "")).unwrap().is_allowed);
        assert_eq!(status(&answer(503, "", "")), None);
        let mut denied = answer(429, r#""x";w=2;q=7, nonsense, "y";w=1, z;q=1"#, "");
        denied.head.retry_after_s = Some(3);
        let told = status(&denied).unwrap();
        assert_eq!(
            (told.is_allowed, told.retry_after_ms, told.limits.len()),
            (false, Some(3_000), 1)
        );
        assert_eq!(
            (&*told.limits[0].name, told.limits[0].window_s),
            ("x", Some(2))
        );
    }
}
