//! The rules for prose. Pages and Rust documentation may not use the words of [`ODD`]. Pages keep to
//! [`COLUMNS`], and link only to what exists.

use crate::source::strings_of;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// The longest line of a page. Tables, code and links that do not fit are excepted.
pub const COLUMNS: usize = 100;

/// Words that a reader of the field's literature stumbles over, and what to write instead. `/` separates
/// forms of a word.
pub const ODD: &[(&str, &str)] = &[
    ("a mistake in this program", "a bug"),
    ("as of", "at (a snapshot)"),
    ("be/is/are/was/were at rest", "be idle, be fully compacted"),
    ("be/is/are/was/were believed", "be trusted; must be verified"),
    ("beside", "next to, concurrently with, in addition to"),
    ("by the clock", "on a timer, periodically"),
    ("bytes for each live byte", "space amplification"),
    ("chance", "random seed"),
    ("come/comes/came/put/puts/putting into/in force", "be installed, be applied"),
    ("cut off", "truncated"),
    ("debt", "compaction debt"),
    ("device/devices of chunks", "flash device"),
    ("do/does/did not hold", "is corrupt, fails its checksum"),
    ("drain/drains/drained/draining", "compaction or flush throughput"),
    ("err/errs/erred by", "be off by"),
    ("for each byte that is put", "write amplification"),
    ("for ever", "permanently"),
    ("for good", "permanently"),
    ("garbage", "obsolete data"),
    ("give/gives/gave/given/giving up", "drop"),
    ("goal/goals for space", "space-amplification limit"),
    ("guess/guesses/guessed", "estimate"),
    ("half took under", "p50"),
    ("hear/hears/heard", "be notified"),
    ("heat", "access frequency"),
    ("hold/holds/held/holding back", "throttle, stall"),
    ("holds/hold/held writers/writes/them/it/others back", "throttle, stall"),
    ("in force", "current, installed"),
    ("keep/keeps/kept a pace", "be throttled"),
    ("learn/learns/learned/learnt", "record, track"),
    ("left over", "obsolete, orphaned"),
    ("levelling", "wear leveling"),
    ("lie/lies/lay", "be stored, be located"),
    ("look/looks/looked/looking over", "inspect, check"),
    ("look/looks/looked/looking at", "inspect, check"),
    ("moment/moments", "snapshot, point in time"),
    ("must not be believed", "must be verified"),
    ("nobody/somebody/everybody/whoever", "no thread, a caller, a reader"),
    ("outrun/outruns", "be faster than"),
    ("owed", "compaction debt"),
    ("pair/pairs", "entry, key-value pair"),
    ("quicker/dearer", "faster, more expensive"),
    ("room/rooms", "free space, capacity"),
    ("sealed memtable/memtables", "immutable MemTable"),
    ("settle/settles/settled/settling", "be fully compacted"),
    ("stand/stands/stood", "be stored"),
    ("stray/strays", "obsolete or orphaned file"),
    ("stretch/stretches", "range"),
    ("tall stack", "read amplification"),
    ("tell/tells/told", "report, return"),
    ("the longest took", "max"),
    ("the paper's", "as described in the paper"),
    ("to be had", "available"),
    ("told apart", "distinguished"),
    ("torn log/logs", "torn tail, incomplete last record"),
    ("under way", "in progress"),
    ("world", "environment"),
];

/// Standard terms that contain one of these words, with nothing to write instead.
const STANDARD: &[(&str, &str)] = &[
    ("compaction debt", ""),
    ("garbage collection/collector/collected", ""),
    ("key-value pair/pairs", ""),
    ("key pair/pairs", ""),
    ("encryption at rest", ""),
    ("stand/stands/stood for", ""),
];

/// The words of `text`, in lower case, with the line of each. Code is left out.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    for (number, line) in without_code(text).lines().enumerate() {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '-' | '_');
        let split = line.split(|c: char| !is_part(c)).filter(|word| !word.is_empty());
        words.extend(split.map(|word| (number + 1, word.to_lowercase())));
    }
    words
}

/// `text` with fenced blocks and spans of code blanked out, and the targets of links, line for line.
fn without_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut fenced = false;
    let mut in_span = false;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        if line.trim().is_empty() {
            in_span = false;
        }
        if !fenced && !is_fence {
            let mut in_target = false;
            let mut before = ' ';
            for c in line.chars() {
                match c {
                    '`' => in_span = !in_span,
                    '(' if !in_span && before == ']' => in_target = true,
                    ')' if in_target => in_target = false,
                    _ => {}
                }
                out.push(if in_span || in_target || c == '`' { ' ' } else { c });
                before = c;
            }
        }
        fenced ^= is_fence;
        out.push('\n');
    }
    out
}

/// Whether the phrase begins at the first of `words`.
fn begins(words: &[(usize, String)], phrase: &str) -> bool {
    phrase.split(' ').enumerate().all(|(at, forms)| {
        words.get(at).is_some_and(|(_, word)| forms.split('/').any(|form| form == word))
    })
}

/// The odd words of a text: line, phrase, and what to write.
fn odd_words(text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let words = words(text);
    // By their first word, as most words of a text begin none.
    let mut phrases = HashMap::<_, Vec<_>>::new();
    for &(phrase, instead) in ODD.iter().chain(STANDARD) {
        let first = phrase.split(' ').next().unwrap_or_default();
        first.split('/').for_each(|form| phrases.entry(form).or_default().push((phrase, instead)));
    }
    let mut found = Vec::new();
    let mut allowed = 0;
    for at in 0..words.len() {
        let here = phrases.get(&words[at].1[..]).into_iter().flatten();
        let mut here: Vec<_> = here.filter(|(phrase, _)| begins(&words[at..], phrase)).collect();
        here.sort_by_key(|(_, instead)| !instead.is_empty());
        for &(phrase, instead) in here {
            if instead.is_empty() {
                allowed = allowed.max(at + phrase.split(' ').count());
            } else if at >= allowed {
                found.push((words[at].0, phrase, instead));
            }
        }
    }
    found
}

/// Odd words of a page.
pub fn page(path: &str, text: &str) -> Vec<String> {
    let place = |(line, phrase, instead)| format!("{path}:{line}: \"{phrase}\": write {instead}");
    odd_words(text).into_iter().map(place).collect()
}

/// Lines that are too long.
pub fn long_lines(path: &str, text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        let is_exempt = fenced || is_fence || line.trim_start().starts_with(['|', '#', '!', '<']);
        let has_long_link = line.contains("](") && line.split(' ').count() < 3;
        if !is_exempt && !has_long_link && line.chars().count() > COLUMNS {
            found.push(format!("{path}:{}: more than {COLUMNS} columns", number + 1));
        }
    }
    found
}

/// Odd words in the documentation comments of a Rust source.
pub fn rustdoc(path: &str, text: &str) -> Vec<String> {
    page(path, &doc_comments(text))
}

/// Odd words in the messages of a Rust source: in its string literals of several words, without
/// those of the tests at its end.
pub fn messages(path: &str, text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let mut found = Vec::new();
    for (line, literal) in strings_of(code) {
        for (_, phrase, instead) in odd_words(&without_values(&literal)) {
            // The name of a job, until it is a term of the public interface.
            if literal.trim().contains(' ') && !phrase.starts_with("merge/") {
                found.push(format!("{path}:{line}: \"{phrase}\": write {instead}: {literal}"));
            }
        }
    }
    found
}

/// A message with its `{values}` blanked out.
fn without_values(message: &str) -> String {
    let mut depth = 0;
    let mut out = String::new();
    for c in message.chars() {
        depth += u32::from(c == '{');
        out.push(if depth > 0 { '_' } else { c });
        depth -= u32::from(c == '}' && depth > 0);
    }
    out
}

/// The text of the documentation comments, line for line, with all else blanked out.
fn doc_comments(text: &str) -> String {
    let doc = |line: &str| {
        let line = line.trim_start().to_owned();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        doc.unwrap_or_default().to_owned() + "\n"
    };
    text.lines().map(doc).collect()
}

/// The links of a page: line and target.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let mut rest = if fenced { "" } else { line };
        while let Some((_, after)) = rest.split_once("](") {
            let (target, after) = after.split_once(')').unwrap_or((after, ""));
            found.push((number + 1, target.to_owned()));
            rest = after;
        }
    }
    found
}

/// The anchors of a page, as GitHub and mdBook make them of headings.
fn anchors(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut plain = Vec::new();
    let mut found = Vec::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let earlier = plain.iter().filter(|other| **other == anchor).count();
        found.push(if earlier == 0 { anchor.clone() } else { format!("{anchor}-{earlier}") });
        plain.push(anchor);
    }
    found
}

/// Links of a page that lead nowhere, in the repository or in the book. `read` gives a file's text,
/// `None` if there is none; a folder is empty.
pub fn dead_links(path: &str, text: &str, read: impl Fn(&Path) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    for (line, link) in links(text) {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
        let target = if file.is_empty() {
            PathBuf::from(path)
        } else {
            resolve(&Path::new(path).parent().unwrap_or(Path::new("")).join(file))
        };
        match read(&target) {
            None => found.push(format!("{path}:{line}: {link}: there is no such file")),
            Some(text) if !anchor.is_empty() && !anchors(&text).iter().any(|a| a == anchor) => {
                found.push(format!("{path}:{line}: {link}: there is no such heading"));
            }
            Some(_) if path.starts_with("docs/") && !target.starts_with("docs") => {
                found.push(format!("{path}:{line}: {link}: the book does not have this file"));
            }
            Some(_) => {}
        }
    }
    found
}

/// `path` without `..`.
fn resolve(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

/// Pages of the book, by their paths in `docs`, that its table of contents does not list.
pub fn unlisted(contents: &str, pages: &[String]) -> Vec<String> {
    let listed: Vec<_> = links(contents).into_iter().map(|(_, target)| target).collect();
    let is_missing = |page: &&String| *page != "SUMMARY.md" && !listed.contains(page);
    pages.iter().filter(is_missing).map(|page| format!("SUMMARY.md does not list {page}")).collect()
}

/// The pages that a source names as `docs/NAME.md`.
pub fn named_pages(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices("docs/") {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
            let path: String = line[at..].chars().take_while(|&c| is_part(c)).collect();
            if let Some(end) = path.find(".md") {
                found.push((number + 1, path[..end + 3].to_owned()));
            }
        }
    }
    found
}

#[test]
fn odd_words_are_found() {
    let find = |text| page("a.md", text).len();
    assert_eq!(find("A pair is held back\nby whoever looks\nat it."), 4);
    assert_eq!(find("No `pair` here; [x](room.md) and\n```\nroom\n```\ncompaction debt"), 0);
    assert_eq!(find("Debt. Garbage collection of key-value pairs; a pair."), 2);
    assert_eq!(find("A span that `goes over\ntwo lines of room` and a room."), 1);
    let source = "//! A pair.\nfn pair() {} // pair\n    /// The room\n    /// `room`.\n";
    let found = rustdoc("a.rs", source);
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with("a.rs:1:") && found[1].starts_with("a.rs:3:"), "{found:?}");
}

#[test]
fn long_lines_are_found() {
    let long = "x ".repeat(51);
    assert_eq!(
        long_lines("a.md", &format!("{long}\n| {long}\n```\n{long}\n```\n- {long}\n")).len(),
        2
    );
}

#[test]
fn dead_links_are_found() {
    let read = |path: &Path| path.ends_with("b.md").then(|| "# One two!\n# One two\n".to_owned());
    let dead = |text| dead_links("docs/x/a.md", text, read).len();
    assert_eq!(
        dead("[b](../b.md) [b](../b.md#one-two) [b](../b.md#one-two-1) [w](https://a.b/c)"),
        0
    );
    assert_eq!(dead("[b](../../b.md)"), 1);
    assert_eq!(dead("[b](c.md) [b](../b.md#three) [b](#one)\n```\n[b](c.md)\n```\n"), 3);
}

#[test]
fn pages_that_sources_name_are_found() {
    assert_eq!(named_pages("// see docs/a-b/c.md: x\n"), [(1, "docs/a-b/c.md".to_owned())]);
    assert!(named_pages("docs/design/0001 docs/").is_empty());
}
