//! What the other replicas have put into a group of records, as this one has last read it.

use tollgate::Micros;
use tollgate_gate::records::{RecordList, RecordRevision};

/// The content of each record of the others, and when it expires by the clock of this replica.
#[derive(Debug)]
pub(crate) struct OtherRecords<T> {
    /// The state of the group that was read.
    pub(crate) revision: RecordRevision,
    pub(crate) contents: Vec<(Micros, T)>,
}

impl<T> Default for OtherRecords<T> {
    fn default() -> Self {
        Self {
            revision: RecordRevision::default(),
            contents: Vec::new(),
        }
    }
}

impl<T> OtherRecords<T> {
    /// Takes over a list that was read; none if nothing has changed. A record that cannot be parsed
    /// is left out, and so is that of this replica.
    pub(crate) fn update(
        &mut self,
        list: Option<RecordList>,
        own_id: &str,
        now: Micros,
        parse: impl Fn(&str) -> Option<T>,
    ) {
        if let Some(list) = list {
            self.revision = list.revision;
            let others = list.records.iter().filter(|record| record.id != own_id);
            let contents = others.filter_map(|record| {
                let length = Micros::from_duration_ceil(record.expires_after)?;
                Some((now.after(length), parse(&record.text)?))
            });
            self.contents = contents.collect();
        }
        self.contents.retain(|(expires_at, _)| now < *expires_at);
    }
}
