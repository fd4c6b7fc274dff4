//! nginx: `limit_req` and `limit_conn` with their zones, in the blocks where they apply.

mod keys;
mod scope;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use self::keys::ZoneKey;
use self::scope::{BlockScope, inner_scope, matches, read_setting, warn_about_narrower};
use self::tokens::{Directive, SyntaxError};
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
pub(super) fn import(text: &str, draft: &mut ImportDraft) -> Result<(), SyntaxError> {
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
    /// Notes a directive that has no equivalent.
    fn gap(&mut self, directive: &Directive, advice: &str) {
        self.draft.gap(directive.line, directive.text(), advice);
    }

    /// Collects the zones of all blocks: they may be defined after their use.
    fn read_zones(&mut self, directives: &[Directive]) {
        for directive in directives {
            if matches!(directive.name(), "limit_req_zone" | "limit_conn_zone") {
                self.read_zone(directive);
            }
            self.read_zones(&directive.block);
        }
    }

    fn read_zone(&mut self, directive: &Directive) {
        let line = directive.line;
        let zone = directive.parameter("zone=");
        let name = zone.and_then(|zone| zone.split(':').next());
        let (Some(name), Some(key)) = (name, directive.words.get(1)) else {
            return self.gap(directive, "expected a key and zone=NAME:SIZE");
        };

        if key.contains("$request_uri") {
            let found = "$request_uri counts each query on its own; here it is the path alone";
            let advice = "nothing, if queries should share a counter";
            self.draft.gap(line, found, advice);
        }
        let (key, rate) = (ZoneKey::parse(key), directive.parameter("rate="));
        let rate = rate.map(str::to_owned);
        self.zones.insert(name.to_owned(), Zone { key, rate, line });
    }

    fn read_block(&mut self, directives: &[Directive], outer: &BlockScope) {
        let mut scope = outer.clone();
        for directive in directives {
            read_setting(directive, &mut scope);
        }
        for directive in directives {
            match directive.name() {
                "limit_req" => self.read_limit_req(directive, &scope),
                "limit_conn" => self.read_limit_conn(directive, &scope),
                _ => self.note(directive),
            }
        }

        for (kind, limit) in ["limit_req", "limit_conn"].into_iter().enumerate() {
            scope.has_outer[kind] |= directives.iter().any(|one| one.name() == limit);
        }
        warn_about_narrower(directives, self.draft);
        for directive in directives.iter().filter(|one| !one.block.is_empty()) {
            self.read_block(&directive.block, &inner_scope(directive, &scope));
        }
    }

    /// Notes directives about limits that have no equivalent.
    fn note(&mut self, directive: &Directive) {
        let advice = match directive.name() {
            "limit_req_status" | "limit_conn_status"
                if directive.words.get(1).is_none_or(|status| status != "429") =>
            {
                "denials have the status 429; nginx sees `?deny_status=` of forward-auth"
            }
            "limit_req_log_level" | "limit_conn_log_level" => {
                "denials are counted in `tollgate_decisions_total`"
            }
            "limit_rate" | "limit_rate_after" => "bandwidth stays a task of nginx: keep it there",
            "include" => "the file is not read: import it, too",
            _ => return,
        };
        self.gap(directive, advice);
    }

    fn read_limit_req(&mut self, directive: &Directive, scope: &BlockScope) {
        let Some(zone) = directive.parameter("zone=") else {
            return self.gap(directive, "expected zone=NAME");
        };
        let burst = directive.parameter("burst=").unwrap_or("0");
        let Ok(burst) = burst.parse() else {
            return self.gap(directive, "burst= must be a number");
        };

        if let Some(delay) = directive.parameter("delay=") {
            let found = format!("delay={delay}: the first {delay} requests of a burst do not wait");
            let advice = "here all requests of a burst wait; write `mode: meter` to let none wait";
            self.draft.gap(directive.line, found, advice);
        }
        let is_nodelay = directive.words.iter().any(|word| word == "nodelay");
        let shape = ZoneShape::Requests {
            burst,
            is_queue: burst > 0 && !is_nodelay,
        };
        self.add_use(directive, zone, shape, scope);
    }

    fn read_limit_conn(&mut self, directive: &Directive, scope: &BlockScope) {
        let [_, zone, count] = directive.words.as_slice() else {
            return self.gap(directive, "expected limit_conn ZONE NUMBER");
        };
        let count = count.clone();
        self.add_use(directive, zone, ZoneShape::Connections { count }, scope);
    }

    fn add_use(&mut self, directive: &Directive, zone: &str, shape: ZoneShape, scope: &BlockScope) {
        let (line, source) = (directive.line, directive.text());
        if let Some(reason) = &scope.unsupported {
            let advice = "write a limit with `match` by hand";
            return self
                .draft
                .gap(line, format!("{source} in {reason}"), advice);
        }

        let kind = usize::from(matches!(shape, ZoneShape::Connections { .. }));
        let limit = ZoneLimit {
            zone: zone.to_owned(),
            shape,
            is_dry_run: scope.is_dry_run[kind],
        };
        let zone_use = self.uses.entry(limit).or_insert_with(|| ZoneUse {
            line,
            source,
            scopes: Vec::new(),
            is_inner: false,
        });
        zone_use.is_inner |= scope.has_outer[kind];
        zone_use.scopes.push(scope.clone());
    }

    /// Adds a limit for each use of a zone, in file order.
    fn add_limits(&mut self) {
        let mut uses: Vec<_> = std::mem::take(&mut self.uses).into_iter().collect();
        uses.sort_by_key(|(_, zone_use)| zone_use.line);

        let mut zones = BTreeSet::new();
        for (limit, zone_use) in &uses {
            let zone = &limit.zone;
            if !zones.insert(zone) {
                let found =
                    format!("the zone {zone} is shared; here each limit has its own counters");
                let advice = "use the same burst everywhere if they must be counted together";
                self.draft.gap(zone_use.line, found, advice);
            }
            self.add_limit(limit, zone_use);
        }
    }

    fn add_limit(&mut self, limit: &ZoneLimit, zone_use: &ZoneUse) {
        let (line, source, draft) = (zone_use.line, &zone_use.source, &mut *self.draft);
        let Some(zone) = self.zones.get(&limit.zone) else {
            let found = format!("the zone of {source} is not in this file");
            let advice = "import the file with its limit_req_zone or limit_conn_zone";
            return draft.gap(line, found, advice);
        };

        let comment = format!("{source} (zone: line {})", zone.line);
        let mut added = LimitDraft::new(&limit.zone, line, comment);
        if let Some(matches) = matches(&zone_use.scopes) {
            added.set("match", matches);
        }
        if !zone.key.set(&mut added, source, draft) {
            return;
        }
        if scope::is_crossed(&zone_use.scopes) {
            let found = format!("{source} is in several servers; all their paths match on each");
            draft.gap(line, found, "write a limit for each server");
        }
        if !limit.set_numbers(zone.rate.as_deref(), &mut added, draft) {
            return;
        }
        if zone_use.is_inner {
            let source = &added.source;
            let found = format!("{source} replaces the limits of the outer block; here both apply");
            let advice = "restrict the `match` of the outer limit, or keep both";
            draft.gap(line, found, advice);
        }
        if limit.is_dry_run {
            added.set("shadow", "true");
        }
        draft.add(added);
    }
}

impl ZoneLimit {
    /// Sets the algorithm and its numbers. False if there is no limit to add.
    fn set_numbers(
        &self,
        rate: Option<&str>,
        added: &mut LimitDraft,
        draft: &mut ImportDraft,
    ) -> bool {
        let (zone, line) = (&self.zone, added.line);
        match &self.shape {
            ZoneShape::Connections { count } => {
                let found = format!(
                    "limit_conn {zone} {count}: nginx releases a connection itself; a permit here \
                     is released by the caller, or after {PERMIT_TIMEOUT}"
                );
                let advice = "keep limit_conn in nginx, or send permits to /v1/release";
                draft.gap(line, found, advice);
                added.set("algorithm", "concurrency");
                added.set("limit", count);
                added.set("permit_timeout", PERMIT_TIMEOUT);
            }
            ZoneShape::Requests { burst, is_queue } => {
                let Some(rate) = rate.and_then(leak_rate) else {
                    let found = format!("the zone {zone} has no rate of the form 10r/s or 30r/m");
                    draft.gap(line, found, "correct `rate=` of the zone");
                    return false;
                };
                if *is_queue {
                    let found = format!("limit_req zone={zone}: nginx delays requests of a burst");
                    let advice = "`wait_ms` of a decision tells how long; forward-auth does not \
                                  wait: write `mode: meter` there";
                    draft.gap(line, found, advice);
                }
                added.set("algorithm", "leaky_bucket");
                added.set("mode", if *is_queue { "queue" } else { "meter" });
                // One request passes, and `burst` more may follow at the same moment.
                added.set("capacity", burst.saturating_add(1).to_string());
                added.set("leak_rate", rate);
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
