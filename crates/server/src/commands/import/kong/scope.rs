//! What a plugin is attached to: a service, a route, a consumer, or everything.

use std::collections::BTreeSet;

use tollgate_rules::config::DocumentNode;

use super::super::draft::{ImportDraft, quoted, quoted_list};
use super::super::outline::{items, text_of, texts_of};

/// Conditions of a route that have no equivalent.
const OTHER_CONDITIONS: [&str; 5] = ["headers", "snis", "sources", "destinations", "expression"];

/// Which requests a plugin applies to. Empty lists are no conditions.
#[derive(Clone, Debug, Default)]
pub(super) struct PluginScope {
    pub(super) name: String,
    pub(super) paths: Vec<String>,
    methods: Vec<String>,
    hosts: Vec<String>,
    consumer: Option<String>,
    /// Whether the plugin is attached to a service or a route.
    pub(super) is_attached: bool,
}

impl PluginScope {
    /// The requests of some routes: those of a service, or the route itself.
    pub(super) fn for_routes<'n>(
        entity: &DocumentNode,
        routes: &[&'n DocumentNode],
        draft: &mut ImportDraft,
    ) -> Self {
        let fields = ["paths", "methods", "hosts"];
        let differ = fields.map(|field| is_different(routes, field));
        if differ.iter().filter(|differs| **differs).count() > 1 {
            let found = "routes with different paths, methods or hosts: here each path matches \
                         with each method and host of them";
            draft.gap(entity.line, found, "write a limit for each route");
        }
        let others = |route: &'n DocumentNode| OTHER_CONDITIONS.map(|field| route.get(field));
        for condition in routes.iter().copied().flat_map(others).flatten() {
            let found = "a condition of a route that has no equivalent; the limit applies to more \
                         requests";
            draft.gap(condition.line, found, "restrict its `match` by hand");
        }

        let [paths, methods, hosts] = fields.map(|field| merged(routes, field));
        Self {
            name: text_of(entity, "name").unwrap_or_default().to_owned(),
            paths,
            methods,
            hosts,
            consumer: None,
            is_attached: true,
        }
    }

    /// The requests of a consumer.
    pub(super) fn for_consumer(consumer: &DocumentNode) -> Self {
        let name = text_of(consumer, "username").or_else(|| text_of(consumer, "custom_id"));
        Self {
            name: name.unwrap_or("consumer").to_owned(),
            consumer: name.map(str::to_owned),
            ..Self::default()
        }
    }

    /// The name of what the plugin is attached to, else that of the plugin.
    pub(super) fn name_or<'s>(&'s self, plugin: &'s str) -> &'s str {
        Some(&*self.name)
            .filter(|name| !name.is_empty())
            .unwrap_or(plugin)
    }

    /// The conditions. None if no path has an equivalent: the limit is left out then.
    pub(super) fn matches(
        &self,
        line: usize,
        draft: &mut ImportDraft,
    ) -> Option<Vec<(&'static str, String)>> {
        let mut matches = Vec::new();
        for (attribute, list) in [("method", &self.methods), ("host", &self.hosts)] {
            if !list.is_empty() {
                matches.push((attribute, quoted_list(list)));
            }
        }

        let mut paths = Vec::new();
        for path in &self.paths {
            if path.starts_with('~') {
                let advice = "write the paths as patterns, such as \"/v1/*/items\"";
                draft.gap(line, format!("the regular expression {path:?}"), advice);
            } else if let Some(exact) = path.strip_prefix('=') {
                paths.push(exact.to_owned());
            } else if path != "/" {
                // A path of a route is the start of the paths that match.
                paths.push(format!("{path}**"));
            }
        }
        let has_root = self.paths.iter().any(|path| path == "/");
        if paths.is_empty() && !has_root && !self.paths.is_empty() {
            return None;
        }
        if !paths.is_empty() && !has_root {
            matches.push(("path", quoted_list(paths)));
        }
        if let Some(consumer) = &self.consumer {
            matches.push(("consumer", quoted(consumer)));
        }
        Some(matches)
    }
}

/// A list of all routes. Empty, which is no condition, if one of them has none.
fn merged(routes: &[&DocumentNode], field: &str) -> Vec<String> {
    let lists = routes.iter().map(|route| texts_of(route, field));
    if lists.clone().any(|list| list.is_empty()) {
        return Vec::new();
    }
    let all: BTreeSet<&str> = lists.flatten().collect();
    all.into_iter().map(str::to_owned).collect()
}

fn is_different(routes: &[&DocumentNode], field: &str) -> bool {
    let mut lists = routes.iter().map(|route| texts_of(route, field));
    let first = lists.next();
    lists.any(|list| Some(&list) != first.as_ref())
}

/// The services and routes of a file, which plugins refer to by name or id.
pub(super) struct EntityIndex<'n> {
    services: &'n [DocumentNode],
    routes: &'n [DocumentNode],
}

impl<'n> EntityIndex<'n> {
    pub(super) fn new(root: &'n DocumentNode) -> Self {
        Self {
            services: items(root, "services"),
            routes: items(root, "routes"),
        }
    }

    /// The routes of a service: those inside of it, and those that refer to it.
    pub(super) fn routes_of(&self, service: &'n DocumentNode) -> Vec<&'n DocumentNode> {
        let refers = |route: &&DocumentNode| {
            reference(route, "service").is_some_and(|name| is_named(service, name))
        };
        let inside = items(service, "routes").iter();
        inside.chain(self.routes.iter().filter(refers)).collect()
    }

    fn route(&self, name: &str) -> Option<&'n DocumentNode> {
        let services = self.services.iter();
        let inside = services.flat_map(|service| items(service, "routes"));
        inside.chain(self.routes).find(|one| is_named(one, name))
    }

    /// The scope of a plugin that names a service, a route or a consumer.
    pub(super) fn narrowed(
        &self,
        plugin: &'n DocumentNode,
        scope: &PluginScope,
        draft: &mut ImportDraft,
    ) -> PluginScope {
        let mut narrowed = scope.clone();
        if let Some(name) = reference(plugin, "service") {
            match self.services.iter().find(|one| is_named(one, name)) {
                Some(service) => {
                    narrowed = PluginScope::for_routes(service, &self.routes_of(service), draft);
                }
                None => warn_about_missing(plugin, "service", name, &mut narrowed, draft),
            }
        }
        if let Some(name) = reference(plugin, "route") {
            match self.route(name) {
                Some(route) => narrowed = PluginScope::for_routes(route, &[route], draft),
                None => warn_about_missing(plugin, "route", name, &mut narrowed, draft),
            }
        }
        if let Some(name) = reference(plugin, "consumer") {
            if narrowed.name.is_empty() {
                name.clone_into(&mut narrowed.name);
            }
            narrowed.consumer = Some(name.to_owned());
        }
        if let Some(name) = reference(plugin, "consumer_group") {
            warn_about_missing(plugin, "consumer_group", name, &mut narrowed, draft);
        }
        narrowed
    }
}

fn warn_about_missing(
    plugin: &DocumentNode,
    kind: &str,
    name: &str,
    scope: &mut PluginScope,
    draft: &mut ImportDraft,
) {
    let found = format!("`{kind}: {name}` is not in this file; the limit has no conditions for it");
    let advice = "add the paths, methods or hosts of its routes to `match`";
    draft.gap(plugin.line, found, advice);
    name.clone_into(&mut scope.name);
    scope.is_attached = kind != "consumer_group";
}

/// What a field refers to: a name or an id, alone or in a mapping.
fn reference<'n>(node: &'n DocumentNode, field: &str) -> Option<&'n str> {
    let names = ["name", "username", "id"];
    text_of(node, field).or_else(|| {
        let entity = node.get(field)?;
        names.iter().find_map(|name| text_of(entity, name))
    })
}

fn is_named(node: &DocumentNode, name: &str) -> bool {
    [text_of(node, "name"), text_of(node, "id")].contains(&Some(name))
}

/// Whether a plugin limits requests.
pub(super) fn is_limit(plugin: &DocumentNode) -> bool {
    is_limit_name(text_of(plugin, "name").unwrap_or_default())
}

pub(super) fn is_limit_name(name: &str) -> bool {
    name.starts_with("rate-limit") || name == "response-ratelimiting"
}
