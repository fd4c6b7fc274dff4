//! The blocks of a configuration: which requests the directives inside of them apply to.

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
        ["location", "~" | "~*", ..] | ["location", "^~", "~", ..] => {
            scope.unsupported = Some(words.join(" "));
        }
        ["location", "^~", path] | ["location", path] if path.starts_with('/') => {
            // A location is the start of the paths that match.
            scope.path = (*path != "/").then(|| format!("{path}**"));
        }
        ["location" | "if" | "limit_except", ..] => {
            scope.unsupported = Some(words.join(" "));
        }
        _ => {}
    }
    scope
}

/// The conditions of all blocks that share a limit. None if it applies to every request.
pub(super) fn matches(scopes: &[BlockScope]) -> Option<String> {
    let mut hosts: Vec<String> = scopes
        .iter()
        .flat_map(|scope| scope.hosts.clone())
        .collect();
    let mut paths: Vec<String> = scopes
        .iter()
        .filter_map(|scope| scope.path.clone())
        .collect();
    // A block without a condition has all requests.
    if scopes.iter().any(|scope| scope.hosts.is_empty()) {
        hosts.clear();
    }
    if scopes.iter().any(|scope| scope.path.is_none()) {
        paths.clear();
    }

    // `.example.com` is the domain and everything below it.
    let domains = hosts.iter().filter_map(|host| host.strip_prefix('.'));
    let below: Vec<String> = domains.map(|domain| format!("*.{domain}")).collect();
    for host in &mut hosts {
        *host = host.trim_start_matches('.').to_owned();
    }
    hosts.extend(below);
    for list in [&mut hosts, &mut paths] {
        list.sort();
        list.dedup();
    }
    let lists = [("host", hosts), ("path", paths)];
    let lists = lists.iter().filter(|(_, list)| !list.is_empty());
    let lists: Vec<(&str, String)> = lists
        .map(|(name, list)| (*name, quoted_list(list.iter().map(String::as_str))))
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
    let locations = || directives.iter().filter(|directive| is_location(directive));
    for location in locations().filter(|location| !limits(location).is_empty()) {
        let Some(prefix) = location.words.last().filter(|path| path.starts_with('/')) else {
            continue;
        };
        let is_exact = location.words.get(1).is_some_and(|word| word == "=");
        let narrower = locations().find(|other| {
            let path = other.words.last().map_or("", String::as_str);
            let is_inside = path != prefix && path.starts_with(prefix.as_str());
            is_inside && limits(other) != limits(location)
        });
        if let Some(narrower) = narrower.filter(|_| !is_exact) {
            draft.gap(
                location.line,
                format!(
                    "the limits of {} do not apply to {} in nginx; here they do",
                    location.words.join(" "),
                    narrower.words.join(" ")
                ),
                "write the paths of the limit by hand if they must not",
            );
        }
    }
}

fn is_location(directive: &Directive) -> bool {
    directive
        .words
        .first()
        .is_some_and(|word| word == "location")
}

/// The limits of a location itself.
fn limits(location: &Directive) -> Vec<&[String]> {
    let is_limit = |inner: &&Directive| {
        let name = inner.words.first().map_or("", String::as_str);
        matches!(name, "limit_req" | "limit_conn")
    };
    let inside = location.block.iter().filter(is_limit);
    inside.map(|inner| inner.words.as_slice()).collect()
}
