//! Rust source without its comments and literals, so that only code is inspected; and its literals.

/// `text` with every comment, string and character literal blanked out, line for line.
pub fn code_of(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    for span in spans(text.as_bytes()) {
        for byte in &mut out[span] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The string literals of `text`, each with its line. Lines that end with a backslash are joined.
pub fn strings_of(text: &str) -> Vec<(usize, String)> {
    let bytes = text.as_bytes();
    let literals = spans(bytes).into_iter().filter(|span| matches!(bytes[span.start], b'"' | b'r'));
    let parts = literals.map(|span| {
        let line = text[..span.start].matches('\n').count() + 1;
        let mut literal = String::new();
        for part in text[span].trim_start_matches('r').trim_matches(['#', '"']).split("\\\n") {
            literal.push_str(if literal.is_empty() { part } else { part.trim_start() });
        }
        (line, literal)
    });
    parts.collect()
}

/// The comments, string and character literals of a source.
fn spans(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => line_end(bytes, at),
            b'/' if bytes[at..].starts_with(b"/*") => block_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' if !in_word(bytes, at) => raw_end(bytes, at).unwrap_or(at),
            b'\'' => character_end(bytes, at).unwrap_or(at),
            _ => at,
        };
        if end > at {
            found.push(at..end);
        }
        at = end.max(at + 1);
    }
    found
}

/// Whether the byte before `at` belongs to the same word. A `b` before a raw string does not count.
fn in_word(bytes: &[u8], at: usize) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    match at.checked_sub(1).map(|before| bytes[before]) {
        Some(b'b') => at.checked_sub(2).is_some_and(|before| is_word(bytes[before])),
        Some(byte) => is_word(byte),
        None => false,
    }
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |len| at + len)
}

fn block_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn raw_end(bytes: &[u8], start: usize) -> Option<usize> {
    let hashes = bytes[start + 1..].iter().take_while(|&&byte| byte == b'#').count();
    let body = start + 1 + hashes;
    if bytes.get(body) != Some(&b'"') {
        return None;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let len = bytes[body + 1..].windows(close.len()).position(|window| window == close)?;
    Some(body + 1 + len + close.len())
}

/// The end of a character literal, or `None` for a lifetime.
fn character_end(bytes: &[u8], start: usize) -> Option<usize> {
    if bytes.get(start + 1) == Some(&b'\\') {
        let close = bytes[start + 3..].iter().position(|&byte| byte == b'\'')?;
        return Some(start + 3 + close + 1);
    }
    let rest = std::str::from_utf8(&bytes[start + 1..]).ok()?;
    let len = rest.chars().next()?.len_utf8();
    (bytes.get(start + 1 + len) == Some(&b'\'')).then_some(start + len + 2)
}

/// The lines of `code` that have `word` in them as a word of its own, numbered from 1.
pub fn lines_with_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let has = move |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            let before = at.checked_sub(1).map(|at| line.as_bytes()[at]);
            let after = line.as_bytes().get(at + word.len()).copied();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    };
    code.lines().zip(1..).filter(move |(line, _)| has(line)).map(|(_, number)| number)
}

#[test]
fn comments_and_literals_are_not_code() {
    let text = "a // unsafe\n/* unsafe /* unsafe */ unsafe */ b \"unsafe \\\" unsafe\" c\n\
                r#\"unsafe \" unsafe\"# d br\"unsafe\" e '\"' f '\\'' g '\\u{41}' h\n&'a str unsafe";
    let code = code_of(text);
    assert_eq!(lines_with_word(&code, "unsafe").collect::<Vec<_>>(), [4]);
    for letter in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        assert!(code.split_whitespace().any(|word| word == letter), "{letter} in {code}");
    }
    assert_eq!(code.lines().count(), text.lines().count());
}

#[test]
fn a_word_is_not_a_part_of_another() {
    let code = "unsafe_code\nnot_unsafe\nunsafe\nunsafe{";
    assert_eq!(lines_with_word(code, "unsafe").collect::<Vec<_>>(), [3, 4]);
}
