//! Numbers and JSON, written behind what a text already holds.
//!
//! Bodies and fields go out with every answer, so they are written in one go: what is constant
//! needs no second look, and few texts hold anything that JSON escapes. Those are left to
//! `serde_json`.

/// Writes a number in digits, among bytes.
pub(super) fn digits(to: &mut Vec<u8>, number: u64) {
    to.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes a number in digits.
pub(super) fn number(to: &mut String, number: u64) {
    to.push_str(itoa::Buffer::new().format(number));
}

/// A JSON object being written, its members in the order of the calls. They are inlined, so that
/// each name is a constant where it is copied.
pub(super) struct Object<'t> {
    to: &'t mut String,
    /// What comes before the next member.
    before: char,
}

impl<'t> Object<'t> {
    pub(super) const fn new(to: &'t mut String) -> Self {
        Self { to, before: '{' }
    }

    /// Adds a member whose value is a text.
    #[inline(always)]
    pub(super) fn text(&mut self, name: &'static str, value: &str) {
        text(self.member(name), value);
    }

    /// Adds a member whose value is a number.
    #[inline(always)]
    pub(super) fn number(&mut self, name: &'static str, value: u64) {
        number(self.member(name), value);
    }

    /// Adds a member whose value is a number, or `null`.
    #[inline(always)]
    pub(super) fn number_or_null(&mut self, name: &'static str, value: Option<u64>) {
        match value {
            Some(value) => self.number(name, value),
            None => self.member(name).push_str("null"),
        }
    }

    /// Adds a member that is true or false.
    #[inline(always)]
    pub(super) fn flag(&mut self, name: &'static str, value: bool) {
        self.member(name)
            .push_str(if value { "true" } else { "false" });
    }

    /// Adds a member whose value is a list, each of its items written by `write`.
    pub(super) fn list<T>(
        &mut self,
        name: &'static str,
        items: &[T],
        write: impl Fn(&mut String, &T),
    ) {
        let to = self.member(name);
        to.push('[');
        for (place, item) in items.iter().enumerate() {
            if place > 0 {
                to.push(',');
            }
            write(to, item);
        }
        to.push(']');
    }

    /// Ends an object that has members.
    pub(super) fn end(self) {
        self.to.push('}');
    }

    /// The name of a member is constant, and none needs escaping.
    #[inline(always)]
    fn member(&mut self, name: &'static str) -> &mut String {
        self.to.push(self.before);
        self.before = ',';
        self.to.push('"');
        self.to.push_str(name);
        self.to.push_str("\":");
        self.to
    }
}

/// Writes a text as JSON does.
pub(super) fn text(to: &mut String, value: &str) {
    if any(value, |byte| matches!(byte, 0..=0x1f | b'\\')) {
        // A text never fails to serialise.
        to.push_str(&serde_json::to_string(value).unwrap_or_default());
        return;
    }
    to.push('"');
    if any(value, |byte| byte == b'"') {
        for (place, piece) in value.split('"').enumerate() {
            to.push_str(if place > 0 { "\\\"" } else { "" });
            to.push_str(piece);
        }
    } else {
        to.push_str(value);
    }
    to.push('"');
}

/// Whether a text has such a byte. All of them are looked at, because to stop at the first one
/// takes longer.
fn any(value: &str, is_it: impl Fn(u8) -> bool) -> bool {
    value.bytes().fold(false, |found, byte| found | is_it(byte))
}
