//! The rules of the corpus, and the variants that they make of a request.

mod request;
mod rule;
mod spell;

use std::collections::BTreeSet;

pub(super) use self::request::{NamedValue, PlainRequest, Variant};
use self::rule::Place;
pub(super) use self::rule::{VariantRule, parse};

/// The rules that are part of the command.
pub(super) fn built_in() -> Result<Vec<VariantRule>, String> {
    parse(include_str!("corpus.txt"))
}

/// The classes of these rules.
pub(super) fn classes(rules: &[VariantRule]) -> BTreeSet<&str> {
    rules.iter().map(|rule| &*rule.class).collect()
}

/// The variants of a request, each once, in the order of the rules. `thorough` also joins the texts
/// of each two rules for slashes.
pub(super) fn variants(
    rules: &[VariantRule],
    request: &PlainRequest,
    thorough: bool,
) -> Vec<Variant> {
    let mut all: Vec<Variant> = rules.iter().flat_map(|rule| request.apply(rule)).collect();

    if thorough {
        let place = Place::Slash;
        let slashes = || rules.iter().filter(|rule| rule.place == place);
        for (first, second) in slashes().flat_map(|one| slashes().map(move |other| (one, other))) {
            let class = format!("{}+{}", first.class, second.class);
            let text = [first.text.as_slice(), &second.text].concat();
            all.extend(request.apply(&VariantRule { class, place, text }));
        }
    }

    let mut seen = BTreeSet::from([request.plain().key()]);
    all.retain(|variant| seen.insert(variant.key()));
    all
}

#[cfg(test)]
mod tests {
    use hyper::Method;

    use super::*;

    fn login() -> PlainRequest {
        PlainRequest {
            method: Method::POST,
            authority: "shop.example".to_owned(),
            path: "/auth/login".to_owned(),
            query: None,
            cookie: None,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    fn targets(rules: &str, request: &PlainRequest) -> Vec<String> {
        let rules = parse(rules).unwrap();
        let all = variants(&rules, request, false);
        all.iter()
            .map(|variant| request.describe(variant))
            .collect()
    }

    #[test]
    fn a_slash_is_replaced_everywhere() {
        assert_eq!(
            targets("a slash %2f", &login()),
            [
                "POST /%2fauth/login",
                "POST /auth%2flogin",
                "POST /%2fauth%2flogin"
            ]
        );
        assert_eq!(
            targets("a slash /x/../", &login())[..2],
            ["POST /x/../auth/login", "POST /auth/x/../login"]
        );
    }

    #[test]
    fn text_is_added_before_and_after() {
        assert_eq!(
            targets("a before http://{host}\na after \\xff\\t", &login()),
            [
                "POST http://shop.example/auth/login",
                "POST /auth/login\\xff\\t"
            ]
        );
    }

    #[test]
    fn letters_are_spelt_differently() {
        let all = "a letter encode\na letter double\na letter all upper\na letter wide\n\
                   a letter overlong\na letter {l}%00";
        assert_eq!(
            targets(all, &login()),
            [
                "POST /auth/%6cogin",
                "POST /auth/%256cogin",
                "POST /AUTH/LOGIN",
                "POST /auth/%ef%bd%8cogin",
                "POST /auth/%c1%acogin",
                "POST /auth/l%00ogin"
            ]
        );
    }

    #[test]
    fn cookies_headers_and_queries_have_variants_of_their_own() {
        let request = PlainRequest {
            query: Some("user=ann".to_owned()),
            cookie: Some(NamedValue::new("session", "abc")),
            headers: vec![NamedValue::new("Authorization", "Bearer T")],
            ..login()
        };
        let all = "a cookie {name} ={value}\\nCookie: x=\\xff\na header {NAME}: {SCHEME}\\t{rest}\n\
                   a query {encoded-name}={value}&{name}=\na cookie {name}={encoded}";
        assert_eq!(
            targets(all, &request),
            [
                "POST /auth/login?user=ann  Cookie: session =abc\\r\\nCookie: x=\\xff",
                "POST /auth/login?user=ann  AUTHORIZATION: BEARER\\tT",
                "POST /auth/login?%75ser=ann&user=",
                "POST /auth/login?user=ann  Cookie: session=%61bc",
            ]
        );
    }

    #[test]
    fn the_plain_request_is_no_variant_and_none_comes_twice() {
        let rules = "a slash /\nb after /\nb slash //\nc after /\nc letter upper\na letter upper";
        assert_eq!(targets(rules, &login()).len(), 5);
    }

    #[test]
    fn a_rule_that_needs_more_than_the_request_has_makes_no_variant() {
        assert!(
            targets(
                "a cookie {name}\na query {name}\na header {name}:",
                &login()
            )
            .is_empty()
        );
        let request = PlainRequest {
            headers: vec![NamedValue::new("X-Api-Key", "k")],
            ..login()
        };
        assert!(targets("a header {name}: {SCHEME} {rest}", &request).is_empty());
    }

    #[test]
    fn the_built_in_rules_cover_every_class() {
        let rules = built_in().unwrap();
        assert_eq!(classes(&rules).len(), 13);
        let paths = variants(&rules, &login(), false);
        assert!((500..1_000).contains(&paths.len()), "{}", paths.len());
        let thorough = variants(&rules, &login(), true).len();
        assert!((10_000..100_000).contains(&thorough), "{thorough}");
    }
}
