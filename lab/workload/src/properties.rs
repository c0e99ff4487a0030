//! Java's property files: the syntax that `java.util.Properties` reads.
//!
//! A logical line is a key and a value, separated by `=`, `:` or blanks. Lines that start with `#` or
//! `!` are comments. A backslash at a line's end joins the next one to it, less its leading blanks;
//! elsewhere it escapes the character after it, `\t \n \r \f` and `\uXXXX` having their meaning.
//! A property that comes twice has its last value. A byte order mark at the start is none of the text.

use std::iter::Peekable;
use std::str::CharIndices;

/// A property and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Property {
    /// The line that it starts on, counted from one.
    pub line: usize,
    /// Its name, escapes resolved.
    pub key: String,
    /// Its value, escapes resolved.
    pub value: String,
}

/// A `\u` that four hexadecimal digits, or the other half of an entry, do not follow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadEscape {
    /// The line that the property starts on, counted from one.
    pub line: usize,
    /// What is there.
    pub text: String,
}

/// The properties of `text`, in order.
pub fn parse(text: &str) -> Result<Vec<Property>, BadEscape> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    logical_lines(text).into_iter().map(|(line, text)| property(line, &text)).collect()
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

/// The lines of `text`, joined where one continues another, without comments, empty lines and
/// leading blanks.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut open: Option<(usize, String)> = None;
    // All of "\r\n", "\n" and "\r" end a line.
    let natural = text.replace("\r\n", "\n").replace('\r', "\n");
    for (at, line) in natural.split('\n').enumerate() {
        let line = line.trim_start_matches(is_blank);
        if open.is_none() && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let (number, mut joined) = open.take().unwrap_or((at + 1, String::new()));
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        if backslashes % 2 == 1 {
            joined.push_str(&line[..line.len() - 1]);
            open = Some((number, joined));
        } else {
            joined.push_str(line);
            lines.push((number, joined));
        }
    }
    lines.extend(open);
    lines
}

fn property(line: usize, text: &str) -> Result<Property, BadEscape> {
    let unescaped = |part: &str| {
        unescape(part).ok_or_else(|| BadEscape { line, text: part.trim_end().to_owned() })
    };
    let end = key_end(text);
    let rest = text[end..].trim_start_matches(is_blank);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(is_blank);
    Ok(Property { line, key: unescaped(&text[..end])?, value: unescaped(value)? })
}

/// Where the key ends: at the first separator that no backslash precedes.
fn key_end(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        if !is_escaped && (is_blank(c) || c == '=' || c == ':') {
            return at;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    text.len()
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.char_indices().peekable();
    while let Some((_, c)) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some((_, 't')) => out.push('\t'),
            Some((_, 'n')) => out.push('\n'),
            Some((_, 'r')) => out.push('\r'),
            Some((_, 'f')) => out.push('\x0c'),
            Some((_, 'u')) => out.push(code_point(text, &mut chars)?),
            Some((_, other)) => out.push(other),
            // A backslash at the very end of the file.
            None => {}
        }
    }
    Some(out)
}

/// The character of a `\u` whose digits come next. One beyond the first plane is two of them.
fn code_point(text: &str, chars: &mut Peekable<CharIndices<'_>>) -> Option<char> {
    let first = code_unit(text, chars)?;
    if let Some(c) = char::from_u32(u32::from(first)) {
        return Some(c);
    }
    let second = match (chars.next()?.1, chars.next()?.1) {
        ('\\', 'u') => code_unit(text, chars)?,
        _ => return None,
    };
    char::decode_utf16([first, second]).next()?.ok()
}

fn code_unit(text: &str, chars: &mut Peekable<CharIndices<'_>>) -> Option<u16> {
    let start = chars.peek()?.0;
    let digits = text.get(start..start + 4)?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    chars.nth(3);
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(usize, String, String)> {
        parse(text).unwrap().into_iter().map(|p| (p.line, p.key, p.value)).collect()
    }

    fn one(text: &str) -> (String, String) {
        let [(_, key, value)] = pairs(text).try_into().unwrap();
        (key, value)
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn keys_end_at_the_first_separator() {
        for text in ["a=b c", "a:b c", "a b c", "  a = b c", "a\t:\tb c", "\x0ca\x0c\x0cb c"] {
            assert_eq!(one(text), pair("a", "b c"), "{text:?}");
        }
        assert_eq!(one("a==b"), pair("a", "=b"));
        assert_eq!(one("a = : b"), pair("a", ": b"));
        assert_eq!(one("a"), pair("a", ""));
        assert_eq!(one("=b"), pair("", "b"));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_key() {
        assert_eq!(one("\u{feff}a=b"), pair("a", "b"));
        assert_eq!(pairs("\u{feff}# a comment\na=b").len(), 1);
    }

    #[test]
    fn a_value_keeps_its_trailing_blanks() {
        assert_eq!(one("a=b  "), pair("a", "b  "));
    }

    #[test]
    fn comments_and_empty_lines_count_as_lines_only() {
        let text = "# one\n\n  ! three \\\na=1\r\n\t\r\nb=2\rc=3";
        let lines: Vec<_> = pairs(text).into_iter().map(|(line, key, _)| (line, key)).collect();
        assert_eq!(lines, [(4, "a".to_owned()), (6, "b".to_owned()), (7, "c".to_owned())]);
    }

    #[test]
    fn an_odd_number_of_backslashes_joins_the_next_line() {
        assert_eq!(one("a=b,\\\n   c,\\\r\n\td"), pair("a", "b,c,d"));
        assert_eq!(one("a=b\\\n#c"), pair("a", "b#c"));
        assert_eq!(one("a=b\\\n\n"), pair("a", "b"));
        assert_eq!(pairs("a=b\\\\\nc=d").len(), 2);
        assert_eq!(one("a=b\\"), pair("a", "b"));
        assert_eq!(pairs("a=\\\n\\\n1\nb=2")[1].0, 4);
    }

    #[test]
    fn escapes_are_resolved_in_keys_and_values() {
        assert_eq!(one("a\\=b\\:c\\ d=e"), pair("a=b:c d", "e"));
        assert_eq!(one("a=\\t\\n\\r\\f\\q\\\\"), pair("a", "\t\n\r\x0cq\\"));
        assert_eq!(one("a=\\u00e9\\uD83d\\uDe00!"), pair("a", "é😀!"));
        assert_eq!(one("é=ü\\ß"), pair("é", "üß"));
    }

    #[test]
    fn broken_code_points_are_named_with_their_line() {
        for bad in ["\\u12", "\\uzzzz", "\\u+123", "\\ud83d", "\\ud83dx", "\\ud83d\\u0041", "\\u€"]
        {
            let error = parse(&format!("a=1\nb={bad}")).unwrap_err();
            assert_eq!(error, BadEscape { line: 2, text: bad.to_owned() });
        }
    }
}
