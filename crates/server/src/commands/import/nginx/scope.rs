//! The blocks of a configuration: which requests the directives inside of them apply to.

use std::collections::BTreeSet;

use super::super::draft::{ImportDraft, conditions, quoted_list};
use super::tokens::Directive;

/// Where directives apply.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockScope {
    pub(super) hosts: Vec<String>,
    pub(super) path: Option<String>,
    /// Why no condition describes the requests of the block. Its limits are left out.
    pub(super) unsupported: Option<String>,
    pub(super) is_dry_run: [bool; 2],
    /// Whether an outer block has limits of this kind, which nginx replaces.
    pub(super) has_outer: [bool; 2],
}

/// Reads a directive that holds for the whole block.
pub(super) fn read_setting(directive: &Directive, scope: &mut BlockScope) {
    let words: Vec<&str> = directive.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["server_name", names @ ..] => {
            let names = names.iter().filter(|name| !matches!(**name, "_" | ""));
            scope.hosts = names.map(|name| (*name).to_owned()).collect();
            if scope.hosts.iter().any(|name| name.starts_with('~')) {
                scope.unsupported = Some("a server_name with a regular expression".to_owned());
            }
        }
        ["limit_req_dry_run", value] => scope.is_dry_run[0] = *value == "on",
        ["limit_conn_dry_run", value] => scope.is_dry_run[1] = *value == "on",
        _ => {}
    }
}

/// The scope of a block inside of another one.
pub(super) fn inner_scope(directive: &Directive, outer: &BlockScope) -> BlockScope {
    let mut scope = outer.clone();
    let words: Vec<&str> = directive.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["location", "=", path] => scope.path = Some((*path).to_owned()),
        ["location", "^~", path] | ["location", path] if path.starts_with('/') => {
            // A location is the start of the paths that match.
            scope.path = (*path != "/").then(|| format!("{path}**"));
        }
        ["location" | "if" | "limit_except", ..] => scope.unsupported = Some(directive.text()),
        _ => {}
    }
    scope
}

/// The conditions of all blocks that share a limit. None if it applies to every request.
pub(super) fn matches(scopes: &[BlockScope]) -> Option<String> {
    // A block without a condition has all requests.
    let (mut hosts, mut paths) = (BTreeSet::new(), BTreeSet::new());
    if scopes.iter().all(|scope| !scope.hosts.is_empty()) {
        for host in scopes.iter().flat_map(|scope| &scope.hosts) {
            // `.example.com` is the domain and everything below it.
            if let Some(domain) = host.strip_prefix('.') {
                hosts.insert(format!("*.{domain}"));
            }
            hosts.insert(host.trim_start_matches('.').to_owned());
        }
    }
    if scopes.iter().all(|scope| scope.path.is_some()) {
        paths.extend(scopes.iter().filter_map(|scope| scope.path.clone()));
    }

    let lists = [("host", hosts), ("path", paths)].into_iter();
    let lists = lists.filter(|(_, list)| !list.is_empty());
    let lists: Vec<_> = lists
        .map(|(name, list)| (name, quoted_list(list)))
        .collect();
    (!lists.is_empty()).then(|| conditions(lists))
}

/// Whether the blocks have different hosts and paths, which are conditions of their own here.
pub(super) fn is_crossed(scopes: &[BlockScope]) -> bool {
    let has_paths = scopes.iter().any(|scope| scope.path.is_some());
    let is_other = |scope: &BlockScope| scope.hosts != scopes[0].hosts;
    has_paths && scopes.iter().any(is_other)
}

/// Notes locations whose limits here also apply to the requests of a narrower location, which nginx
/// serves by that one alone.
pub(super) fn warn_about_narrower(directives: &[Directive], draft: &mut ImportDraft) {
    let locations = || directives.iter().filter(|one| one.name() == "location");
    for location in locations().filter(|location| !limits(location).is_empty()) {
        let is_exact = location.words.get(1).is_some_and(|word| word == "=");
        let prefix = location.words.last().filter(|path| path.starts_with('/'));
        let Some(prefix) = prefix.filter(|_| !is_exact) else {
            continue;
        };

        let narrower = locations().find(|other| {
            let path = other.words.last().map_or("", String::as_str);
            let is_inside = path != prefix && path.starts_with(prefix.as_str());
            is_inside && limits(other) != limits(location)
        });
        if let Some(narrower) = narrower {
            let (location_text, narrower) = (location.text(), narrower.text());
            let found = format!(
                "the limits of {location_text} do not apply to {narrower} in nginx; here they do"
            );
            let advice = "write the paths of the limit by hand if they must not";
            draft.gap(location.line, found, advice);
        }
    }
}

/// The limits of a location itself.
fn limits(location: &Directive) -> Vec<&[String]> {
    let inside = location.block.iter();
    inside
        .filter(|inner| matches!(inner.name(), "limit_req" | "limit_conn"))
        .map(|inner| inner.words.as_slice())
        .collect()
}
