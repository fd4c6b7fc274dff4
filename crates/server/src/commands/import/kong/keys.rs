//! What a plugin counts by. Kong counts by address where that is missing.

use tollgate_rules::config::DocumentNode;

use super::super::draft::{ImportDraft, quoted_list};
use super::super::outline::{line_of, text_of};
use super::scope::PluginScope;

/// The key of the limits of a plugin. `field` holds what it counts by.
pub(super) fn key(
    config: &DocumentNode,
    field: &str,
    scope: &mut PluginScope,
    draft: &mut ImportDraft,
) -> String {
    let by = text_of(config, field).unwrap_or("consumer");
    let mut gap = |found: String, advice: &str| draft.gap(line_of(config, field), found, advice);
    match by {
        "ip" => quoted_list(["client_ip"]),
        "service" => {
            if !scope.is_attached {
                let found = format!("`{field}: service`: one counter for all services");
                let advice = "write a limit for each service, with its paths or hosts in `match`";
                gap(found, advice);
            }
            "[]".to_owned()
        }
        "header" => {
            let name = text_of(config, "header_name").unwrap_or_default();
            quoted_list([format!("header:{name} | client_ip")])
        }
        "path" => {
            let path = text_of(config, "path").unwrap_or("/");
            scope.paths = vec![format!("={path}")];
            let found = format!("`{field}: path`: Kong counts other paths than {path} by address");
            let advice = "add a limit with `key: [client_ip]` for them if you need it";
            gap(found, advice);
            "[]".to_owned()
        }
        "consumer" | "credential" => {
            let found = format!(
                "`{field}: {by}`: only Kong knows the {by}; without it, the address counts"
            );
            let advice = format!(
                "send it as the attribute `{by}`, or count by a header, such as header:apikey"
            );
            gap(found, &advice);
            quoted_list([format!("{by} | client_ip")])
        }
        other => {
            let advice = "use consumer, credential, ip, service, header or path";
            gap(format!("`{field}: {other}`; the address counts"), advice);
            quoted_list(["client_ip"])
        }
    }
}
