//! nginx: `limit_req` and `limit_conn` with their zones, in the blocks where they apply.

mod keys;
mod scope;
mod tokens;

use std::collections::BTreeMap;

use self::keys::ZoneKey;
use self::scope::{BlockScope, inner_scope, matches, read_setting, warn_about_narrower};
use self::tokens::Directive;
use super::draft::{ImportDraft, LimitDraft};

/// How long a permit of an imported `limit_conn` is held, if it is never released.
const PERMIT_TIMEOUT: &str = "60s";

/// A zone: what it counts by, and the rate of `limit_req_zone`.
#[derive(Debug)]
struct Zone {
    key: ZoneKey,
    rate: Option<String>,
    line: usize,
}

/// A limit on a zone. Those that are equal share a counter, whatever block they are in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ZoneLimit {
    zone: String,
    shape: ZoneShape,
    is_dry_run: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ZoneShape {
    Requests { burst: u64, is_queue: bool },
    Connections { count: String },
}

/// The blocks in which a limit applies.
#[derive(Debug)]
struct ZoneUse {
    line: usize,
    source: String,
    scopes: Vec<BlockScope>,
    /// Whether an outer block has limits of this kind, too.
    is_inner: bool,
}

/// Translates a file.
pub(super) fn import(text: &str, draft: &mut ImportDraft) -> Result<(), (usize, String)> {
    let directives = tokens::parse(text)?;
    let mut reader = BlockReader {
        zones: BTreeMap::new(),
        uses: BTreeMap::new(),
        draft,
    };

    reader.read_zones(&directives);
    reader.read_block(&directives, &BlockScope::default());
    reader.add_limits();
    Ok(())
}

struct BlockReader<'d> {
    zones: BTreeMap<String, Zone>,
    uses: BTreeMap<ZoneLimit, ZoneUse>,
    draft: &'d mut ImportDraft,
}

impl BlockReader<'_> {
    /// Collects the zones of all blocks: they may be defined after their use.
    fn read_zones(&mut self, directives: &[Directive]) {
        for directive in directives {
            let name = directive.words.first().map_or("", String::as_str);
            if matches!(name, "limit_req_zone" | "limit_conn_zone") {
                self.read_zone(directive);
            }
            self.read_zones(&directive.block);
        }
    }

    fn read_zone(&mut self, directive: &Directive) {
        let Directive { line, words, .. } = directive;
        let parameter = |prefix: &str| {
            let mut words = words.iter().skip(1);
            words
                .find_map(|word| word.strip_prefix(prefix))
                .map(str::to_owned)
        };
        let zone = parameter("zone=");
        let name = zone.as_deref().and_then(|zone| zone.split(':').next());
        let (Some(name), Some(key)) = (name, words.get(1)) else {
            self.draft
                .gap(*line, words.join(" "), "expected a key and zone=NAME:SIZE");
            return;
        };

        if key.contains("$request_uri") {
            let found = "$request_uri counts each query on its own; here it is the path alone";
            self.draft
                .gap(*line, found, "nothing, if queries should share a counter");
        }
        let zone = Zone {
            key: ZoneKey::parse(key),
            rate: parameter("rate="),
            line: *line,
        };
        self.zones.insert(name.to_owned(), zone);
    }

    fn read_block(&mut self, directives: &[Directive], outer: &BlockScope) {
        let mut scope = outer.clone();
        for directive in directives {
            read_setting(directive, &mut scope);
        }

        let mut own = [false; 2];
        for directive in directives {
            let name = directive.words.first().map_or("", String::as_str);
            match name {
                "limit_req" => {
                    own[0] = true;
                    self.read_limit_req(directive, &scope);
                }
                "limit_conn" => {
                    own[1] = true;
                    self.read_limit_conn(directive, &scope);
                }
                _ => self.note(name, directive),
            }
        }
        for (kind, has_own) in own.into_iter().enumerate() {
            scope.has_outer[kind] |= has_own;
        }

        warn_about_narrower(directives, self.draft);
        for directive in directives
            .iter()
            .filter(|directive| !directive.block.is_empty())
        {
            let inner = inner_scope(directive, &scope);
            self.read_block(&directive.block, &inner);
        }
    }

    /// Notes directives about limits that have no equivalent.
    fn note(&mut self, name: &str, directive: &Directive) {
        let Directive { line, words, .. } = directive;
        let is_usual = |status: &String| status == "429";
        let advice = match name {
            "limit_req_status" | "limit_conn_status" if words.get(1).is_some_and(is_usual) => {
                return;
            }
            "limit_req_status" | "limit_conn_status" => {
                "denials have the status 429; nginx sees `?deny_status=` of forward-auth"
            }
            "limit_req_log_level" | "limit_conn_log_level" => {
                "denials are counted in `tollgate_decisions_total`"
            }
            "limit_rate" | "limit_rate_after" => "bandwidth stays a task of nginx: keep it there",
            "include" => "the file is not read: import it, too",
            _ => return,
        };
        self.draft.gap(*line, words.join(" "), advice);
    }

    fn read_limit_req(&mut self, directive: &Directive, scope: &BlockScope) {
        let Directive { line, words, .. } = directive;
        let parameter = |prefix: &str| words.iter().find_map(|word| word.strip_prefix(prefix));
        let Some(zone) = parameter("zone=") else {
            self.draft.gap(*line, words.join(" "), "expected zone=NAME");
            return;
        };

        let burst = parameter("burst=").map_or(Ok(0), str::parse);
        let Ok(burst) = burst else {
            self.draft
                .gap(*line, words.join(" "), "burst= must be a number");
            return;
        };
        let is_nodelay = words.iter().any(|word| word == "nodelay");
        if let Some(delay) = parameter("delay=") {
            let found = format!("delay={delay}: the first {delay} requests of a burst do not wait");
            let advice = "here all requests of a burst wait; write `mode: meter` to let none wait";
            self.draft.gap(*line, found, advice);
        }
        let shape = ZoneShape::Requests {
            burst,
            is_queue: burst > 0 && !is_nodelay,
        };
        self.add_use(directive, zone, shape, scope, 0);
    }

    fn read_limit_conn(&mut self, directive: &Directive, scope: &BlockScope) {
        let [_, zone, count] = directive.words.as_slice() else {
            let found = directive.words.join(" ");
            self.draft
                .gap(directive.line, found, "expected limit_conn ZONE NUMBER");
            return;
        };
        let (zone, count) = (zone.clone(), count.clone());
        self.add_use(directive, &zone, ZoneShape::Connections { count }, scope, 1);
    }

    fn add_use(
        &mut self,
        directive: &Directive,
        zone: &str,
        shape: ZoneShape,
        scope: &BlockScope,
        kind: usize,
    ) {
        let source = directive.words.join(" ");
        if let Some(reason) = &scope.unsupported {
            let advice = "write a limit with `match` by hand";
            self.draft
                .gap(directive.line, format!("{source} in {reason}"), advice);
            return;
        }
        let limit = ZoneLimit {
            zone: zone.to_owned(),
            shape,
            is_dry_run: scope.is_dry_run[kind],
        };
        let zone_use = self.uses.entry(limit).or_insert_with(|| ZoneUse {
            line: directive.line,
            source,
            scopes: Vec::new(),
            is_inner: false,
        });
        zone_use.is_inner |= scope.has_outer[kind];
        zone_use.scopes.push(scope.clone());
    }

    /// Adds a limit for each use of a zone, in file order.
    fn add_limits(&mut self) {
        let uses = std::mem::take(&mut self.uses);
        let mut uses: Vec<(ZoneLimit, ZoneUse)> = uses.into_iter().collect();
        uses.sort_by_key(|(_, zone_use)| zone_use.line);

        for index in 0..uses.len() {
            let (limit, zone_use) = &uses[index];
            let is_same = |(other, _): &(ZoneLimit, ZoneUse)| other.zone == limit.zone;
            if uses[..index].iter().any(is_same) {
                self.draft.gap(
                    zone_use.line,
                    format!(
                        "the zone {} is shared; here each limit has its own counters",
                        limit.zone
                    ),
                    "use the same burst everywhere if they must be counted together",
                );
            }
            self.add_limit(limit, zone_use);
        }
    }

    fn add_limit(&mut self, limit: &ZoneLimit, zone_use: &ZoneUse) {
        let (line, source) = (zone_use.line, zone_use.source.clone());
        let Some(zone) = self.zones.get(&limit.zone) else {
            let advice = "import the file with its limit_req_zone or limit_conn_zone";
            self.draft.gap(
                line,
                format!("the zone of {source} is not in this file"),
                advice,
            );
            return;
        };
        let Some(key) = zone.key.fields(&source, line, self.draft) else {
            return;
        };

        if scope::is_crossed(&zone_use.scopes) {
            let found = format!("{source} is in several servers; all their paths match on each");
            self.draft.gap(line, found, "write a limit for each server");
        }
        let mut fields = Vec::new();
        if let Some(matches) = matches(&zone_use.scopes) {
            fields.push(("match", matches));
        }
        fields.extend(key);
        let rate = zone.rate.clone();
        let source = format!("{source} (zone: line {})", zone.line);
        if !self.add_numbers(limit, line, rate.as_deref(), &mut fields) {
            return;
        }
        if zone_use.is_inner {
            self.draft.gap(
                line,
                format!("{source} replaces the limits of the outer block; here both apply"),
                "restrict the `match` of the outer limit, or keep both",
            );
        }
        if limit.is_dry_run {
            fields.push(("shadow", "true".to_owned()));
        }
        let name = limit.zone.clone();
        self.draft.add(LimitDraft {
            name,
            line,
            source,
            fields,
        });
    }

    /// Adds the algorithm and its numbers. False if there is no limit to add.
    fn add_numbers(
        &mut self,
        limit: &ZoneLimit,
        line: usize,
        rate: Option<&str>,
        fields: &mut Vec<(&'static str, String)>,
    ) -> bool {
        match &limit.shape {
            ZoneShape::Connections { count } => {
                self.draft.gap(
                    line,
                    format!(
                        "limit_conn {} {count}: nginx releases a connection itself; a permit here is \
                         released by the caller, or after {PERMIT_TIMEOUT}",
                        limit.zone
                    ),
                    "keep limit_conn in nginx, or send permits to /v1/release",
                );
                fields.push(("algorithm", "concurrency".to_owned()));
                fields.push(("limit", count.clone()));
                fields.push(("permit_timeout", PERMIT_TIMEOUT.to_owned()));
            }
            ZoneShape::Requests { burst, is_queue } => {
                let Some(rate) = rate.and_then(leak_rate) else {
                    let found = format!(
                        "the zone {} has no rate of the form 10r/s or 30r/m",
                        limit.zone
                    );
                    self.draft.gap(line, found, "correct `rate=` of the zone");
                    return false;
                };
                let mode = if *is_queue { "queue" } else { "meter" };
                if *is_queue {
                    self.draft.gap(
                        line,
                        format!(
                            "limit_req zone={}: nginx delays requests of a burst",
                            limit.zone
                        ),
                        "`wait_ms` of a decision tells how long; forward-auth does not wait: write \
                         `mode: meter` there",
                    );
                }
                // One request passes, and `burst` more may follow at the same moment.
                let capacity = burst.saturating_add(1).to_string();
                fields.push(("algorithm", "leaky_bucket".to_owned()));
                fields.push(("mode", mode.to_owned()));
                fields.push(("capacity", capacity));
                fields.push(("leak_rate", rate));
            }
        }
        true
    }
}

/// The leak rate of `10r/s` or `30r/m`.
fn leak_rate(rate: &str) -> Option<String> {
    let (count, unit) = rate.split_once("r/")?;
    let count: u64 = count.parse().ok().filter(|count| *count > 0)?;
    match unit {
        "s" => Some(format!("{count}/s")),
        "m" => Some(format!("{count}/minute")),
        _ => None,
    }
}
