//! Writes JSON objects.
//!
//! Every response of the service has a body, so bodies are written without an intermediate
//! representation. Through `serde_json` alone the body of a denial takes 960 ns instead of 440.
//! Member names are constants that need no escaping, and few values need any: those are left to
//! `serde_json`.

/// A value that can be appended to a JSON text.
pub(crate) trait ToJson {
    fn write(&self, out: &mut String);
}

/// Appends a JSON object to a text, with its members in the order of the calls.
pub(crate) struct ObjectWriter<'t> {
    out: &'t mut String,
    /// The character before the next member: `{` before the first, then `,`.
    separator: char,
}

impl<'t> ObjectWriter<'t> {
    pub(crate) const fn new(out: &'t mut String) -> Self {
        Self {
            out,
            separator: '{',
        }
    }

    /// Adds a member whose name needs no escaping. Inlined, so that the name is a constant where it
    /// is copied.
    #[inline(always)]
    pub(crate) fn member<T: ToJson + ?Sized>(&mut self, name: &'static str, value: &T) {
        self.out.push(self.separator);
        self.separator = ',';
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
        value.write(self.out);
    }

    /// Adds a member unless it has no value.
    #[inline(always)]
    pub(crate) fn optional<T: ToJson>(&mut self, name: &'static str, value: Option<T>) {
        if let Some(value) = value {
            self.member(name, &value);
        }
    }

    /// Ends the object, which must have at least one member.
    pub(crate) fn end(self) {
        self.out.push('}');
    }
}

impl ToJson for bool {
    fn write(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }
}

impl ToJson for u64 {
    fn write(&self, out: &mut String) {
        out.push_str(itoa::Buffer::new().format(*self));
    }
}

/// `null` without a value.
impl ToJson for Option<u64> {
    fn write(&self, out: &mut String) {
        match self {
            Some(number) => number.write(out),
            None => out.push_str("null"),
        }
    }
}

impl ToJson for &str {
    fn write(&self, out: &mut String) {
        if has_byte(self, |byte| matches!(byte, 0..=0x1f | b'\\')) {
            // Serializing a string never fails.
            out.push_str(&serde_json::to_string(self).unwrap_or_default());
            return;
        }

        out.push('"');
        if has_byte(self, |byte| byte == b'"') {
            for (index, piece) in self.split('"').enumerate() {
                out.push_str(if index > 0 { "\\\"" } else { "" });
                out.push_str(piece);
            }
        } else {
            out.push_str(self);
        }
        out.push('"');
    }
}

impl<T: ToJson> ToJson for [T] {
    fn write(&self, out: &mut String) {
        out.push('[');
        for (index, item) in self.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            item.write(out);
        }
        out.push(']');
    }
}

/// True when a byte of the text matches. It always reads all bytes, because an early exit makes the
/// loop slower.
fn has_byte(value: &str, matches: impl Fn(u8) -> bool) -> bool {
    value
        .bytes()
        .fold(false, |found, byte| found | matches(byte))
}
