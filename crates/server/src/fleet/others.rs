//! What the other replicas have put into a group of records, as this one has last read it.

use std::collections::BTreeMap;

use tollgate::Micros;
use tollgate_gate::records::{RecordList, RecordRevision};

/// The content of each record of the others, and when it expires by the clock of this replica.
#[derive(Debug)]
pub(crate) struct OtherRecords<T> {
    /// The state of the group that was read.
    pub(crate) revision: RecordRevision,
    /// By the id of the record.
    contents: BTreeMap<String, (Micros, T)>,
}

impl<T> Default for OtherRecords<T> {
    fn default() -> Self {
        Self {
            revision: RecordRevision::default(),
            contents: BTreeMap::new(),
        }
    }
}

impl<T> OtherRecords<T> {
    pub(crate) fn len(&self) -> usize {
        self.contents.len()
    }

    /// The contents with the times at which they expire.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &(Micros, T)> {
        self.contents.values()
    }

    /// Takes over a list that was read; none if nothing has changed. A record that cannot be parsed
    /// is left out, and so is that of this replica. Until `kept_until`, what was known before
    /// stays, expired or not.
    pub(crate) fn update(
        &mut self,
        list: Option<RecordList>,
        own_id: &str,
        now: Micros,
        kept_until: Micros,
        parse: impl Fn(&str) -> Option<T>,
    ) {
        let is_kept = now < kept_until;
        if let Some(list) = list {
            self.revision = list.revision;
            let others = list
                .records
                .into_iter()
                .filter(|record| record.id != own_id);
            let contents = others.filter_map(|record| {
                let length = Micros::from_duration_ceil(record.expires_after)?;
                Some((record.id, (now.after(length), parse(&record.text)?)))
            });
            if !is_kept {
                self.contents = BTreeMap::new();
            }
            self.contents.extend(contents);
        }
        if !is_kept {
            self.contents.retain(|_, (expires_at, _)| now < *expires_at);
        }
    }
}
