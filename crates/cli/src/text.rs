//! Bytes as text that can be read, and read back.
//!
//! The escape rule, used wherever keys and values are printed one to a field: text stands for itself,
//! except that a backslash, tab, newline and carriage return are `\\`, `\t`, `\n` and `\r`, and every
//! byte of a control character, and every byte that is not UTF-8, is `\x` and two hexadecimal digits.
//! So a field never holds a separator, a terminal never gets a control code, and nothing is lost.

use std::borrow::Cow;
use std::fmt::Write;

/// Appends `bytes` to `out` by the escape rule.
pub fn escape_into(bytes: &[u8], out: &mut String) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                character if character.is_control() => {
                    escape_bytes(character.encode_utf8(&mut [0; 4]).as_bytes(), out);
                }
                character => out.push(character),
            }
        }
        escape_bytes(chunk.invalid(), out);
    }
}

/// `text` with its control characters escaped, except newlines and tabs. For people only: it cannot be
/// read back.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_hidden = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if !text.contains(is_hidden) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match is_hidden(character) {
            true => escape_into(character.encode_utf8(&mut [0; 4]).as_bytes(), &mut out),
            false => out.push(character),
        }
    }
    out.into()
}

/// `bytes` as they are if a terminal can show them, else by the escape rule.
pub fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if matches!(visible(text), Cow::Borrowed(_)) => text.to_owned(),
        _ => escape(bytes),
    }
}

fn escape_bytes(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        write!(out, "\\x{byte:02x}").expect("a string takes everything");
    }
}

/// `bytes` by the escape rule.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    escape_into(bytes, &mut out);
    out
}

/// The bytes that `text` stands for by the escape rule, or what is wrong with it.
pub fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let (byte, len) = match rest[at + 1..] {
            [b'\\', ..] => (b'\\', 2),
            [b't', ..] => (b'\t', 2),
            [b'n', ..] => (b'\n', 2),
            [b'r', ..] => (b'\r', 2),
            [b'x', high, low, ..] => match (hex_digit(high), hex_digit(low)) {
                (Some(high), Some(low)) => (high << 4 | low, 4),
                _ => return Err("\\x needs two hexadecimal digits after it".into()),
            },
            [b'x', ..] => return Err("\\x needs two hexadecimal digits after it".into()),
            [other, ..] => {
                return Err(format!("\\{} is no escape", other.escape_ascii()));
            }
            [] => return Err("it ends in a lone backslash".into()),
        };
        out.push(byte);
        rest = &rest[at + len..];
    }
    out.extend_from_slice(rest);
    Ok(out)
}

/// `bytes` as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(out, "{byte:02x}").expect("a string takes everything");
    }
    out
}

/// The bytes that hexadecimal digits stand for, or what is wrong with them.
pub fn unhex(digits: &[u8]) -> Result<Vec<u8>, String> {
    if digits.len() % 2 == 1 {
        return Err(format!("{} hexadecimal digits are not whole bytes", digits.len()));
    }
    digits
        .chunks(2)
        .map(|pair| Some(hex_digit(pair[0])? << 4 | hex_digit(pair[1])?))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("\"{}\" is not hexadecimal", digits.escape_ascii()))
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// `bytes` for people, at most about `width` characters, shortened in the middle.
pub fn shorten(bytes: &[u8], width: usize) -> String {
    // Beyond this, nothing can change what is shown.
    let head = escape(&bytes[..bytes.len().min(width * 4)]);
    if bytes.len() <= width * 4 && head.chars().count() <= width {
        return head;
    }
    let tail = escape(&bytes[bytes.len() - bytes.len().min(width)..]);
    let keep = width.saturating_sub(1);
    let first: String = head.chars().take(keep - keep / 3).collect();
    let last: Vec<char> = tail.chars().rev().take(keep / 3).collect();
    format!("{first}…{}", last.into_iter().rev().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;

    #[test]
    fn any_bytes_survive_the_escape_rule_and_hold_no_separator() {
        let mut rng = Rng::new(1);
        for _ in 0..2000 {
            let mut bytes = vec![0; rng.below(12) as usize];
            rng.fill(&mut bytes);
            if rng.one_in(2) {
                bytes.extend("\\é\u{85}\t".bytes());
            }
            let text = escape(&bytes);
            assert!(!text.contains(char::is_control), "{text:?}");
            assert_eq!(unescape(text.as_bytes()).as_deref(), Ok(&bytes[..]));
            assert_eq!(unhex(hex(&bytes).as_bytes()), Ok(bytes));
        }
    }

    #[test]
    fn printable_text_stands_for_itself() {
        assert_eq!(escape("naïve 日本 \u{1f600}".as_bytes()), "naïve 日本 \u{1f600}");
        assert_eq!(escape(b"a\\b\xff"), "a\\\\b\\xff");
    }

    #[test]
    fn what_is_no_escape_is_refused() {
        for bad in ["\\", "\\q", "\\x", "\\x1", "\\xg0", "a\\"] {
            assert!(unescape(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(unhex(b"abc").is_err() && unhex(b"zz").is_err());
    }

    #[test]
    fn long_keys_are_shortened_in_the_middle() {
        assert_eq!(shorten(b"short", 10), "short");
        assert_eq!(shorten(b"abcdefghijklmnop", 10), "abcdef…nop");
        assert_eq!(shorten(&[0xff; 1000], 10).chars().count(), 10);
    }
}
