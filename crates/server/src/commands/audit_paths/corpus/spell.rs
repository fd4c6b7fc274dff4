//! Other spellings of a path, and of the texts of rules.

/// The texts with which the first letter of the last segment, or every letter, is replaced.
pub(super) fn letters(path: &[u8], text: &[u8]) -> Vec<u8> {
    let all = text.strip_prefix(b"all ");
    let last_segment = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    let first = if all.is_some() { 0 } else { last_segment };

    let mut spelt = path[..first].to_vec();
    let mut is_done = false;
    for byte in &path[first..] {
        if byte.is_ascii_alphabetic() && (all.is_some() || !is_done) {
            spelt.extend(letter(*byte, all.unwrap_or(text)));
            is_done = true;
        } else {
            spelt.push(*byte);
        }
    }
    spelt
}

/// One letter in another form.
fn letter(byte: u8, form: &[u8]) -> Vec<u8> {
    match form {
        b"encode" => encode(byte),
        b"ENCODE" => format!("%{byte:02X}").into_bytes(),
        b"double" => format!("%25{byte:02x}").into_bytes(),
        b"unicode" => format!("%u00{byte:02x}").into_bytes(),
        b"overlong" => format!("%{:02x}%{:02x}", 0xc0 | byte >> 6, 0x80 | byte & 0x3f).into_bytes(),
        b"upper" => vec![byte.to_ascii_uppercase()],
        b"wide" => wide(byte).into_iter().flat_map(encode).collect(),
        b"wide-raw" => wide(byte),
        _ => fill(form, |name| (name == b"l").then(|| vec![byte])),
    }
}

/// The full-width form of an ASCII character, in UTF-8.
fn wide(byte: u8) -> Vec<u8> {
    let wide = char::from_u32(0xfee0 + u32::from(byte));
    wide.map(|wide| wide.to_string().into_bytes())
        .unwrap_or_default()
}

/// A byte, percent-encoded.
pub(super) fn encode(byte: u8) -> Vec<u8> {
    format!("%{byte:02x}").into_bytes()
}

/// The value with its first byte percent-encoded.
pub(super) fn encode_first(value: &[u8]) -> Vec<u8> {
    match value.split_first() {
        Some((first, rest)) => [&encode(*first), rest].concat(),
        None => Vec::new(),
    }
}

/// The path with a text instead of each slash in turn, then of all slashes.
pub(super) fn slashes(path: &[u8], text: &[u8]) -> Vec<Vec<u8>> {
    let is_slash = |index: &usize| path[*index] == b'/';
    let indices: Vec<usize> = (0..path.len()).filter(is_slash).collect();

    // A target starts with a slash.
    let front = match text.first() {
        Some(b'/') => text.to_vec(),
        _ => [b"/", text].concat(),
    };
    let replaced = |chosen: &[usize]| {
        let mut spelt = Vec::new();
        for (index, byte) in path.iter().enumerate() {
            match index {
                0 if chosen.contains(&0) => spelt.extend_from_slice(&front),
                _ if chosen.contains(&index) => spelt.extend_from_slice(text),
                _ => spelt.push(*byte),
            }
        }
        spelt
    };

    let one_by_one = indices.chunks(1).map(replaced);
    one_by_one.chain([replaced(&indices)]).collect()
}

/// Replaces `{name}` by its value, if it has one. Other braces stay.
pub(super) fn fill(text: &[u8], value: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut filled = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let found = || {
            let end = after.iter().position(|byte| *byte == b'}')?;
            Some((value(&after[..end])?, &after[end + 1..]))
        };
        if let Some((value, after)) = (*byte == b'{').then(found).flatten() {
            filled.extend(value);
            rest = after;
        } else {
            filled.push(*byte);
            rest = after;
        }
    }
    filled
}
