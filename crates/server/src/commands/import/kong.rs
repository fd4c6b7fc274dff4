//! Kong's rate-limiting plugin: in a declarative configuration, as a `KongPlugin` resource, or alone.

use tollgate_rules::config::DocumentNode;

use super::draft::{ImportDraft, LimitDraft, conditions, quoted, quoted_list};
use super::outline::{is_true, reject_fields, text_of, texts_of};

const PLUGIN: &str = "rate-limiting";
const WINDOWS: [(&str, &str); 6] = [
    ("second", "1s"),
    ("minute", "1m"),
    ("hour", "1h"),
    ("day", "1d"),
    ("month", "1month"),
    ("year", "365d"),
];
const FIELDS: &[&str] = &[
    "second",
    "minute",
    "hour",
    "day",
    "month",
    "year",
    "limit_by",
    "header_name",
    "path",
    "policy",
    "fault_tolerant",
    "hide_client_headers",
    "error_code",
    "error_message",
    "sync_rate",
    "redis",
    "redis_host",
    "redis_port",
    "redis_password",
    "redis_username",
    "redis_database",
    "redis_timeout",
    "redis_ssl",
    "redis_ssl_verify",
    "redis_server_name",
];

/// What a plugin is attached to: which requests it applies to.
#[derive(Clone, Debug, Default)]
struct PluginScope {
    name: String,
    paths: Vec<String>,
    methods: Vec<String>,
    hosts: Vec<String>,
    consumer: Option<String>,
}

/// Translates a file.
pub(super) fn import(root: &DocumentNode, draft: &mut ImportDraft) -> Result<(), String> {
    let before = draft.len();
    let mut found = 0;
    walk(root, &PluginScope::default(), &mut found, draft);

    if found == 0 {
        return Err(format!("found no plugin `{PLUGIN}`"));
    }
    if found > 1 && draft.len() > before {
        draft.gap(
            root.line,
            "Kong runs the most specific of several plugins; here every limit that matches applies",
            "restrict the `match` of the more general limits",
        );
    }
    Ok(())
}

/// Reads the plugins of an entity, and the entities inside of it.
fn walk(node: &DocumentNode, scope: &PluginScope, found: &mut usize, draft: &mut ImportDraft) {
    let name = text_of(node, "plugin").or_else(|| text_of(node, "name"));
    if node.get("config").is_some() && name.is_some() {
        read_plugin(node, name.unwrap_or_default(), scope, found, draft);
        return;
    }

    let items = |field: &str| node.get(field).map_or(&[][..], DocumentNode::items);
    for plugin in items("plugins") {
        let name = text_of(plugin, "name").unwrap_or_default();
        read_plugin(plugin, name, scope, found, draft);
    }
    for service in items("services") {
        let routes = service.get("routes").map_or(&[][..], DocumentNode::items);
        // A service gets the requests of its routes.
        let inside = routes.iter().fold(named(scope, service), with_route);
        let plugins = service.get("plugins").map_or(&[][..], DocumentNode::items);
        for plugin in plugins {
            let name = text_of(plugin, "name").unwrap_or_default();
            read_plugin(plugin, name, &inside, found, draft);
        }
        for route in routes {
            walk(route, &with_route(named(scope, route), route), found, draft);
        }
    }
    for route in items("routes") {
        walk(route, &with_route(named(scope, route), route), found, draft);
    }
    for consumer in items("consumers") {
        let name = text_of(consumer, "username").or_else(|| text_of(consumer, "custom_id"));
        let inside = PluginScope {
            consumer: name.map(str::to_owned),
            name: name.unwrap_or("consumer").to_owned(),
            ..scope.clone()
        };
        walk(consumer, &inside, found, draft);
    }
}

fn named(scope: &PluginScope, node: &DocumentNode) -> PluginScope {
    let name = text_of(node, "name").unwrap_or(&scope.name).to_owned();
    PluginScope {
        name,
        ..scope.clone()
    }
}

fn with_route(mut scope: PluginScope, route: &DocumentNode) -> PluginScope {
    let add = |list: &mut Vec<String>, field: &str| {
        let texts = texts_of(route, field);
        list.extend(texts.into_iter().map(str::to_owned));
    };
    add(&mut scope.paths, "paths");
    add(&mut scope.methods, "methods");
    add(&mut scope.hosts, "hosts");
    scope
}

fn read_plugin(
    node: &DocumentNode,
    name: &str,
    scope: &PluginScope,
    found: &mut usize,
    draft: &mut ImportDraft,
) {
    if name != PLUGIN {
        if name.starts_with("rate-limit") || name == "response-ratelimiting" {
            *found += 1;
            let advice =
                "write its limits by hand: a sliding window is `algorithm: sliding_window`";
            draft.gap(node.line, format!("the plugin `{name}`"), advice);
        }
        return;
    }
    *found += 1;
    if text_of(node, "enabled") == Some("false") {
        draft.gap(node.line, "a plugin with `enabled: false`", "leave it out");
        return;
    }
    let Some(config) = node.get("config") else {
        draft.gap(
            node.line,
            "a plugin without `config`",
            "give it a limit, such as `minute: 5`",
        );
        return;
    };

    reject_fields(config, FIELDS, draft);
    read_settings(config, draft);
    let mut scope = scope.clone();
    for kind in ["service", "route", "consumer"] {
        if let Some(entity) = text_of(node, kind) {
            draft.gap(
                node.line,
                format!("`{kind}: {entity}`: the limit has no conditions for it"),
                "add the paths, methods or hosts of its routes to `match`",
            );
            entity.clone_into(&mut scope.name);
        }
    }
    for (field, window) in WINDOWS {
        if let Some(limit) = config.get(field) {
            add_limit(config, limit, (field, window), &scope, draft);
        }
    }
}

/// Notes the settings that are not those of one limit.
fn read_settings(config: &DocumentNode, draft: &mut ImportDraft) {
    let line = |field: &str| config.get(field).map_or(config.line, |node| node.line);
    match text_of(config, "policy") {
        Some("redis") => {
            let redis = config.get("redis");
            let host = redis.and_then(|redis| text_of(redis, "host"));
            let host = host
                .or_else(|| text_of(config, "redis_host"))
                .unwrap_or("127.0.0.1");
            let port = redis.and_then(|redis| text_of(redis, "port"));
            let port = port
                .or_else(|| text_of(config, "redis_port"))
                .unwrap_or("6379");
            let url = quoted_list([format!("redis://{host}:{port}").as_str()]);
            let store = format!("store:\n  type: redis\n  endpoints: {url}\n");
            if draft.sections.is_empty() {
                draft.sections.push(store);
            } else if !draft.sections.contains(&store) {
                let advice = "all limits of a file share one store";
                draft.gap(line("redis"), "another Redis server", advice);
            }
            draft.gap(
                line("policy"),
                "user, password, database and TLS of Redis are not imported",
                "write them into the URL: `redis://user:${REDIS_PASSWORD}@host:6379/0`, `rediss://` \
                 for TLS",
            );
        }
        Some("cluster") => draft.gap(
            line("policy"),
            "`policy: cluster` counts in Kong's database; the imported file counts in memory",
            "add a Redis store: `store: { type: redis, endpoints: [..] }`",
        ),
        _ => {}
    }
    for (field, found, advice) in [
        (
            "error_code",
            "another status of denials",
            "it is 429; forward-auth takes `?deny_status=`",
        ),
        (
            "error_message",
            "another message of denials",
            "use `denial: { body: .. }`",
        ),
        (
            "sync_rate",
            "`sync_rate`",
            "use `consistency: leased` or `eventual` to save store calls",
        ),
    ] {
        if config.get(field).is_some() {
            draft.gap(line(field), found, advice);
        }
    }
    if is_true(config, "hide_client_headers") {
        let advice = "use `headers: { ietf: false, legacy: false }`, for all limits of the file";
        draft.gap(
            line("hide_client_headers"),
            "`hide_client_headers: true`",
            advice,
        );
    }
}

fn add_limit(
    config: &DocumentNode,
    limit: &DocumentNode,
    (field, window): (&'static str, &'static str),
    scope: &PluginScope,
    draft: &mut ImportDraft,
) {
    let Some(count) = limit
        .text()
        .filter(|count| !matches!(*count, "" | "~" | "null"))
    else {
        return;
    };
    let mut scope = scope.clone();
    let key = key(config, limit.line, &mut scope, draft);
    let mut fields = Vec::new();
    let Some(matches) = matches(&scope, config.line, draft) else {
        return;
    };
    if !matches.is_empty() {
        let matches = matches.iter().map(|(name, value)| (*name, value.clone()));
        fields.push(("match", conditions(matches)));
    }

    fields.extend([("key", key), ("algorithm", "fixed_window".to_owned())]);
    if field == "year" {
        let found = "`year`: the window starts with the first request, not with the calendar";
        draft.gap(
            limit.line,
            found,
            "use `window: 1month` with `align: clock`",
        );
    } else {
        fields.push(("align", "clock".to_owned()));
    }
    fields.extend([("limit", count.to_owned()), ("window", window.to_owned())]);
    // The memory store of `policy: local` is never unavailable.
    if text_of(config, "policy") == Some("redis") {
        let is_strict = text_of(config, "fault_tolerant") == Some("false");
        let policy = if is_strict { "deny" } else { "allow" };
        fields.push(("on_store_failure", policy.to_owned()));
    }

    let name = if scope.name.is_empty() {
        PLUGIN
    } else {
        &scope.name
    };
    draft.add(LimitDraft {
        name: format!("{name}-{field}"),
        line: limit.line,
        source: format!("{PLUGIN} {field}: {count}"),
        fields,
    });
}

/// The key. Kong counts by address where what it counts by is missing.
fn key(
    config: &DocumentNode,
    line: usize,
    scope: &mut PluginScope,
    draft: &mut ImportDraft,
) -> String {
    let by = text_of(config, "limit_by").unwrap_or("consumer");
    match by {
        "ip" => quoted_list(["client_ip"]),
        "service" => quoted_list([]),
        "header" => {
            let name = text_of(config, "header_name").unwrap_or_default();
            quoted_list([format!("header:{name} | client_ip").as_str()])
        }
        "path" => {
            let path = text_of(config, "path").unwrap_or("/");
            scope.paths = vec![format!("={path}")];
            quoted_list([])
        }
        "consumer" | "credential" => {
            draft.gap(
                line,
                format!(
                    "`limit_by: {by}`: only Kong knows the {by}; without it, the address counts"
                ),
                format!(
                    "send it as the attribute `{by}`, or count by a header, such as header:apikey"
                ),
            );
            quoted_list([format!("{by} | client_ip").as_str()])
        }
        other => {
            let advice = "use consumer, credential, ip, service, header or path";
            draft.gap(
                line,
                format!("`limit_by: {other}`; the address counts"),
                advice,
            );
            quoted_list(["client_ip"])
        }
    }
}

/// The conditions. None if none of the paths has an equivalent: the limit is left out then.
fn matches(
    scope: &PluginScope,
    line: usize,
    draft: &mut ImportDraft,
) -> Option<Vec<(&'static str, String)>> {
    let mut matches = Vec::new();
    if !scope.methods.is_empty() {
        matches.push((
            "method",
            quoted_list(scope.methods.iter().map(String::as_str)),
        ));
    }
    if !scope.hosts.is_empty() {
        matches.push(("host", quoted_list(scope.hosts.iter().map(String::as_str))));
    }

    let mut paths = Vec::new();
    for path in &scope.paths {
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
    let has_root = scope.paths.iter().any(|path| path == "/");
    if paths.is_empty() && !has_root && !scope.paths.is_empty() {
        return None;
    }
    if !paths.is_empty() && !has_root {
        matches.push(("path", quoted_list(paths.iter().map(String::as_str))));
    }
    if let Some(consumer) = &scope.consumer {
        matches.push(("consumer", quoted(consumer)));
    }
    Some(matches)
}
