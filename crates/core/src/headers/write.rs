//! Appends numbers and JSON to a buffer.
//!
//! Every response has these fields and bodies, so they are written without an intermediate
//! representation. Member names are constants that need no escaping, and few values need any: those
//! are left to `serde_json`.

/// Appends a decimal number to bytes.
pub(super) fn digits(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a decimal number to text.
pub(super) fn number(out: &mut String, number: u64) {
    out.push_str(itoa::Buffer::new().format(number));
}

/// Appends a JSON object to a text, with its members in the order of the calls. The methods are
/// inlined, so that each name is a constant where it is copied.
pub(super) struct ObjectWriter<'t> {
    out: &'t mut String,
    /// The character before the next member: `{` before the first, then `,`.
    separator: char,
}

impl<'t> ObjectWriter<'t> {
    pub(super) const fn new(out: &'t mut String) -> Self {
        Self {
            out,
            separator: '{',
        }
    }

    /// Adds a member with a string value.
    #[inline(always)]
    pub(super) fn text(&mut self, name: &'static str, value: &str) {
        text(self.member(name), value);
    }

    /// Adds a member with a number value.
    #[inline(always)]
    pub(super) fn number(&mut self, name: &'static str, value: u64) {
        number(self.member(name), value);
    }

    /// Adds a member with a number value, or `null`.
    #[inline(always)]
    pub(super) fn number_or_null(&mut self, name: &'static str, value: Option<u64>) {
        match value {
            Some(value) => self.number(name, value),
            None => self.member(name).push_str("null"),
        }
    }

    /// Adds a member with a boolean value.
    #[inline(always)]
    pub(super) fn flag(&mut self, name: &'static str, value: bool) {
        self.member(name)
            .push_str(if value { "true" } else { "false" });
    }

    /// Adds a member with an array value; `write` appends each item.
    pub(super) fn list<T>(
        &mut self,
        name: &'static str,
        items: &[T],
        write: impl Fn(&mut String, &T),
    ) {
        let out = self.member(name);

        out.push('[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            write(out, item);
        }
        out.push(']');
    }

    /// Ends the object, which must have at least one member.
    pub(super) fn end(self) {
        self.out.push('}');
    }

    /// Appends a member's name, which must not need escaping, and returns the text for its value.
    #[inline(always)]
    fn member(&mut self, name: &'static str) -> &mut String {
        self.out.push(self.separator);
        self.separator = ',';
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
        self.out
    }
}

/// Appends a JSON string.
pub(super) fn text(out: &mut String, value: &str) {
    if has_byte(value, |byte| matches!(byte, 0..=0x1f | b'\\')) {
        // Serializing a string never fails.
        out.push_str(&serde_json::to_string(value).unwrap_or_default());
        return;
    }

    out.push('"');
    if has_byte(value, |byte| byte == b'"') {
        for (index, piece) in value.split('"').enumerate() {
            out.push_str(if index > 0 { "\\\"" } else { "" });
            out.push_str(piece);
        }
    } else {
        out.push_str(value);
    }
    out.push('"');
}

/// True when a byte of the text matches. It always reads all bytes, because an early exit makes the
/// loop slower.
fn has_byte(value: &str, matches: impl Fn(u8) -> bool) -> bool {
    value
        .bytes()
        .fold(false, |found, byte| found | matches(byte))
}
