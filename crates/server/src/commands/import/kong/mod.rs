//! Kong's plugins rate-limiting and rate-limiting-advanced: in a declarative configuration, as a
//! `KongPlugin` resource, or alone.

mod advanced;
mod keys;
mod plugin;
mod scope;
mod settings;

use tollgate_rules::config::DocumentNode;

use self::advanced::ADVANCED;
use self::plugin::PLUGIN;
use self::scope::{EntityIndex, PluginScope, is_limit, is_limit_name};
use super::draft::ImportDraft;
use super::outline::{is_true, items, text_of};

/// Translates a file.
pub(super) fn import(root: &DocumentNode, draft: &mut ImportDraft) -> Result<(), String> {
    let mut reader = FileReader {
        index: EntityIndex::new(root),
        found: 0,
        draft,
    };
    reader.read_root(root);

    let found = reader.found;
    if found == 0 {
        return Err(format!("found no plugin `{PLUGIN}` or `{ADVANCED}`"));
    }
    if found > 1 && draft.len() > 0 {
        let found =
            "Kong runs the most specific of several plugins; here every limit that matches applies";
        let advice = "restrict the `match` of the more general limits";
        draft.gap(root.line, found, advice);
    }
    Ok(())
}

struct FileReader<'n, 'd> {
    index: EntityIndex<'n>,
    found: usize,
    draft: &'d mut ImportDraft,
}

impl<'n> FileReader<'n, '_> {
    /// Reads the plugins of a file, and those of its services, routes and consumers.
    fn read_root(&mut self, root: &'n DocumentNode) {
        let name = text_of(root, "plugin").or_else(|| text_of(root, "name"));
        if let Some(name) = name.filter(|_| root.get("plugin").or(root.get("config")).is_some()) {
            self.read_plugin(root, name, &PluginScope::default());
            return;
        }

        self.read_plugins(root, &PluginScope::default());
        for service in items(root, "services") {
            if items(service, "plugins").iter().any(is_limit) {
                let routes = self.index.routes_of(service);
                let scope = PluginScope::for_routes(service, &routes, self.draft);
                self.read_plugins(service, &scope);
            }
            for route in items(service, "routes") {
                self.read_route(route);
            }
        }
        for route in items(root, "routes") {
            self.read_route(route);
        }
        for consumer in items(root, "consumers") {
            self.read_plugins(consumer, &PluginScope::for_consumer(consumer));
        }
        for group in items(root, "consumer_groups") {
            let plugins = items(group, "plugins").iter();
            for plugin in plugins.filter(|plugin| is_limit(plugin)) {
                self.found += 1;
                let found = "a limit of a consumer group; only Kong knows the group";
                let advice = "send the group as an attribute, and use tiers: `tier: { by: group }`";
                self.draft.gap(plugin.line, found, advice);
            }
        }
    }

    fn read_route(&mut self, route: &'n DocumentNode) {
        if items(route, "plugins").iter().any(is_limit) {
            let scope = PluginScope::for_routes(route, &[route], self.draft);
            self.read_plugins(route, &scope);
        }
    }

    fn read_plugins(&mut self, entity: &'n DocumentNode, scope: &PluginScope) {
        for plugin in items(entity, "plugins") {
            self.read_plugin(plugin, text_of(plugin, "name").unwrap_or_default(), scope);
        }
    }

    fn read_plugin(&mut self, node: &'n DocumentNode, name: &str, scope: &PluginScope) {
        if !is_limit_name(name) {
            return;
        }
        self.found += 1;
        let (line, draft) = (node.line, &mut *self.draft);
        if text_of(node, "enabled") == Some("false") || is_true(node, "disabled") {
            return draft.gap(line, "a plugin that is not enabled", "leave it out");
        }
        let Some(config) = node.get("config") else {
            let advice = "give it a limit, such as `minute: 5`";
            return draft.gap(line, "a plugin without `config`", advice);
        };

        let scope = self.index.narrowed(node, scope, draft);
        match name {
            PLUGIN => plugin::read(config, scope, draft),
            ADVANCED => advanced::read(config, scope, draft),
            _ => {
                let advice = "write its limits by hand; units of responses are counted by \
                              `POST /v1/check` with `count: true`";
                draft.gap(line, format!("the plugin `{name}`"), advice);
            }
        }
    }
}
