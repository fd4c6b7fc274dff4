//! Warnings about settings that do not do what they say with the memory store, which belongs to one
//! process.

use tollgate::Consistency;

use super::field::ConfigField;
use super::field_map::FieldMap;
use super::names::CONSISTENCIES;
use super::store::StoreConfig;

/// Adds one warning for each such setting, at the first place where the file has it. The root must
/// have been read without an error.
pub(super) fn add(root: &FieldMap<'_>, store: &StoreConfig) {
    let StoreConfig::Memory { snapshot, .. } = store else {
        return;
    };

    let limits = root.read("limits", |field| field.items(""));
    let sections = root
        .get("defaults")
        .into_iter()
        .chain(limits.into_iter().flatten());
    let sections: Vec<_> = sections
        .filter_map(|field| FieldMap::with_free_keys(&field, ""))
        .collect();
    let settings = |name: &'static str| sections.iter().filter_map(move |map| map.get(name));
    let consistencies = |wanted: &'static [Consistency]| {
        settings("consistency").filter(move |field| {
            let found = field.choice(CONSISTENCIES);
            found.is_some_and(|found| wanted.contains(&found))
        })
    };

    warn_once(
        settings("expected_replicas").filter(is_several),
        "the memory store is not shared: every process counts by itself, so several replicas \
         together admit a multiple of each limit; share the counters with a Redis store",
    );
    warn_once(
        consistencies(&[Consistency::Leased, Consistency::Eventual]),
        "no effect with the memory store: every process counts by itself; use a Redis store to \
         share the counters, or remove the setting",
    );
    warn_once(
        settings("on_store_failure"),
        "no effect with the memory store: it is never unavailable, but every process counts by \
         itself; use a Redis store to share the counters, or remove the setting",
    );
    if snapshot.is_some() {
        warn_once(
            consistencies(&[Consistency::Local]),
            "the snapshot does not contain `local` limits, so a restart resets them; `strict` is \
             the same with the memory store, and is saved",
        );
    }
}

fn is_several(replicas: &ConfigField<'_>) -> bool {
    replicas.integer_in::<u64>(1..=u64::MAX) > Some(1)
}

fn warn_once<'a>(mut settings: impl Iterator<Item = ConfigField<'a>>, message: &str) {
    let Some(first) = settings.next() else { return };
    match settings.count() {
        0 => first.warn(message),
        1 => first.warn(format_args!("{message} (also in 1 other place)")),
        more => first.warn(format_args!("{message} (also in {more} other places)")),
    }
}
