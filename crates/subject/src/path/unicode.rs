//! Characters that some servers treat as the ASCII characters they resemble.

/// The distance of a full-width character from its ASCII character.
const FULL_WIDTH: u32 = 0xfee0;

/// Appends a character in lower case, or as the ASCII character that it resembles.
pub(super) fn fold_char(c: char, out: &mut String) {
    match c {
        ..'\u{80}' => out.push(c),
        '\u{ff01}'..='\u{ff5e}' => out.extend(char::from_u32(u32::from(c) - FULL_WIDTH)),
        '\u{17f}' => out.push('s'),
        '\u{2024}' | '\u{fe52}' | '\u{ff61}' | '\u{3002}' => out.push('.'),
        '\u{2025}' => out.push_str(".."),
        '\u{2044}' | '\u{2215}' => out.push('/'),
        '\u{2216}' | '\u{fe68}' => out.push('\\'),
        _ => out.extend(c.to_lowercase()),
    }
}
