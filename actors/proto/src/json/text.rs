//! Strings: where they end, what they say, how they are written.

/// A word of eight times the same byte.
const fn eight(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Marks, in the high bit of each byte, the bytes of `word` that are `"`, `\` or below a space.
///
/// `c ^ 2` is below 0x21 for control characters and `"` alone. Above the first marked byte there may be
/// false marks, borrowed from it; the first is always right.
const fn specials(word: u64) -> u64 {
    let controls_and_quotes = (word ^ eight(2)).wrapping_sub(eight(0x21));
    let backslashes = (word ^ eight(b'\\')).wrapping_sub(eight(1));
    (controls_and_quotes | backslashes) & !word & eight(0x80)
}

/// Whether any of 32 bytes is `"`, `\` or below a space. No way out of the loop, so it becomes a few wide instructions.
fn any_special(chunk: &[u8; 32]) -> bool {
    chunk.iter().fold(0, |any, &c| any | u8::from(c < b' ') | u8::from(c == b'"') | u8::from(c == b'\\')) != 0
}

/// Bytes of a string that are looked at by words: most strings are no longer.
const SHORT: usize = 40;

/// The index of the next `"`, `\` or control character from `at` on, or the length.
#[inline(always)]
pub(crate) fn next_special(bytes: &[u8], mut at: usize) -> usize {
    let long = at + SHORT;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let marks = specials(u64::from_le_bytes(*chunk));
        if marks != 0 {
            return at + (marks.trailing_zeros() / 8) as usize;
        }
        at += 8;
        if at == long {
            at = without_special(bytes, at);
        }
    }
    while bytes.get(at).is_some_and(|&c| c >= 0x20 && c != b'"' && c != b'\\') {
        at += 1;
    }
    at
}

/// Passes over as many times 32 bytes as have no special.
#[inline(never)]
fn without_special(bytes: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk)
        && !any_special(chunk)
    {
        at += 32;
    }
    at
}

/// The end of the escape whose backslash stands at `at`; `None` for an escape that JSON does not have.
#[inline]
pub(super) fn escape_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at + 1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 2),
        b'u' => bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit).then_some(at + 6),
        _ => None,
    }
}

/// What a string's inside says. `None` where it has a lone surrogate.
///
/// The inside must be one that the scanner has accepted.
pub(super) fn unescape(inside: &str) -> Option<String> {
    let mut rest = inside;
    let mut text = String::with_capacity(inside.len());
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let (character, length) = unescape_one(&rest[at + 1..])?;
        text.push(character);
        rest = &rest[at + 1 + length..];
    }
    text.push_str(rest);
    Some(text)
}

/// The character of the escape whose part behind the backslash `rest` begins with, and that part's length.
fn unescape_one(rest: &str) -> Option<(char, usize)> {
    let simple = match rest.as_bytes().first()? {
        b'u' => return unescape_unit(rest),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        &itself => char::from(itself),
    };
    Some((simple, 1))
}

fn unescape_unit(rest: &str) -> Option<(char, usize)> {
    let unit = |from: usize| rest.get(from..from + 4).and_then(|hex| u16::from_str_radix(hex, 16).ok());
    let first = unit(1)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Some((character, 5));
    }
    let second = rest.get(5..7).filter(|&next| next == "\\u").and_then(|_| unit(7))?;
    let character = char::decode_utf16([first, second]).next()?.ok()?;
    Some((character, 11))
}

/// Whether two short texts are the same. Mostly two loads and no call.
#[inline(always)]
pub(super) fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    fn ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
        a.first_chunk::<N>() == b.first_chunk() && a.last_chunk::<N>() == b.last_chunk()
    }
    match a.len() {
        length if length != b.len() => false,
        8..=16 => ends::<8>(a, b),
        4..=7 => ends::<4>(a, b),
        _ => a == b,
    }
}

/// Appends `text` as a JSON string with its quotes.
pub fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut from = 0;
    loop {
        let at = next_special(text.as_bytes(), from);
        out.push_str(&text[from..at]);
        let Some(&special) = text.as_bytes().get(at) else { break };
        match special {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => {
                let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
                out.push_str("\\u00");
                out.push(digit(control >> 4));
                out.push(digit(control & 15));
            }
        }
        from = at + 1;
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_special_is_found_at_every_offset() {
        for special in [b'"', b'\\', 0, b'\n', 0x1f] {
            for before in 0..150 {
                let mut bytes = vec![0x7f; before];
                bytes.push(special);
                bytes.extend_from_slice("é\u{7f} \u{80}#!]".as_bytes());
                assert_eq!(next_special(&bytes, 0), before, "{special}");
                assert_eq!(next_special(&bytes, before + 1), bytes.len(), "{special}");
            }
        }
    }

    #[test]
    fn escapes_say_what_json_says() {
        let inside = r#"a\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00\uD83D\uDE00z"#;
        assert_eq!(unescape(inside).expect("valid"), "a\"\\/\u{8}\u{c}\n\r\tA\u{e9}\u{1f600}\u{1f600}z");
        for lone in [r"\ud800", r"\ud800x", r"\udc00", r"\ud800\u0041", r"\ud800\n", r"\udc00\ud800", r"\ud800\ud800"] {
            assert_eq!(unescape(lone), None, "{lone}");
        }
    }

    #[test]
    fn a_written_string_is_read_back() {
        let text: String = (0..0x300).filter_map(char::from_u32).chain("\u{1f600}\u{ffff}".chars()).collect();
        let mut written = String::new();
        push_string(&mut written, &text);
        assert_eq!(serde_json::from_str::<String>(&written).expect("valid"), text);
        assert_eq!(unescape(&written[1..written.len() - 1]).expect("valid"), text);
    }
}
