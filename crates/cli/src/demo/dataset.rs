//! The bundled data: the Unicode character database, one record a character. See `crates/cli/data/README.md`.

use super::show::Show;
use super::{finding, prove};
use crate::failure::{Failure, Outcome};
use crate::import::{Format, Job, OnError, Rules, Stopped, Way, longest_line};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::text::escape;
use crate::units;
use esker::{Db, KeyRange, Keyspace, KeyspaceSettings};
use esker_base::{Clock, SystemClock};
use serde_json::{Map, Value as Json};

/// The file, inside the program, so that the demo runs wherever the program is.
pub const UNICODE: &[u8] = include_bytes!("../../data/unicode.tsv");

/// The keyspace that it goes to.
pub const KEYSPACE: &str = "unicode";

const BATCH_BYTES: usize = 256 << 10;

/// The records' lines, without the header.
fn records() -> impl Iterator<Item = &'static str> {
    let text = std::str::from_utf8(UNICODE).expect("the bundled data is ASCII");
    text.lines().skip(1)
}

fn columns() -> Vec<&'static str> {
    let text = std::str::from_utf8(UNICODE).expect("the bundled data is ASCII");
    text.lines().next().unwrap_or_default().split('\t').collect()
}

/// Imports it and checks every record.
pub fn import(db: &Db, show: &mut Show) -> Outcome {
    let keyspace = db.keyspace(KEYSPACE, KeyspaceSettings::default())?;
    let clock = SystemClock::new();
    let job = Job {
        name: "unicode.tsv".into(),
        format: Format::Tsv,
        rules: Rules { key: Some("code".into()), ..Rules::default() },
        on_error: OnError::Fail,
        interrupt: &Interrupt::default(),
        progress: &Progress::hidden(),
        way: Way::Batches,
        batch_bytes: BATCH_BYTES,
        line_bytes: longest_line(BATCH_BYTES),
    };
    let begun = job.begin(UNICODE)?;
    let tally = job.run(db, &keyspace, begun);
    if let Some(Stopped::Failed(failure)) = tally.stopped {
        return Err(failure);
    }
    let seconds = clock.now().as_secs_f64();
    show.line(&format!(
        "{} in {:.0} ms, {} records/s, each as a JSON object",
        units::counted(tally.records, "record"),
        seconds * 1e3,
        units::per_second(tally.records, seconds)
    ))?;
    verify(db, show)
}

/// Checks that the keyspace holds exactly the records of the file, by a point read of each and a
/// scan of all.
pub fn verify(db: &Db, show: &mut Show) -> Outcome {
    let keyspace = db.open_keyspace(KEYSPACE)?;
    let columns = columns();
    let (mut total, mut equal) = (0u64, 0u64);
    for line in records() {
        total += 1;
        let fields: Vec<_> = line.split('\t').collect();
        let value = db.get(&keyspace, fields[0].as_bytes()).map_err(finding)?;
        equal += u64::from(value.is_some_and(|value| holds(&value, &columns, &fields)));
    }
    let mut scanned = 0u64;
    for pair in db.range(&keyspace, ..) {
        pair.map_err(finding)?;
        scanned += 1;
    }
    let count = units::count(total);
    let claim = format!("all {count} records read back equal to the file, and there are no others");
    prove(show, equal == total && scanned == total, &claim)
}

fn holds(value: &[u8], columns: &[&str], fields: &[&str]) -> bool {
    let Ok(object) = serde_json::from_slice::<Map<String, Json>>(value) else { return false };
    object.len() == columns.len()
        && columns
            .iter()
            .zip(fields)
            .all(|(column, field)| object.get(*column) == Some(&(*field).into()))
}

/// Reads in all ways, and shows some of it.
pub fn read(db: &Db, show: &mut Show) -> Outcome {
    let keyspace = db.open_keyspace(KEYSPACE)?;
    for code in ["20AC", "1F980"] {
        let value = db.get(&keyspace, code.as_bytes())?;
        let name = value.as_deref().map_or_else(|| "missing".to_owned(), name_of);
        show.line(&format!("get {code}        {}  {name}", character(code)))?;
    }
    prove(
        show,
        db.get(&keyspace, b"no such code")?.is_none(),
        "a key that is not there is not found",
    )?;

    let greek = KeyRange::of(b"0391".as_slice()..b"0396");
    let forward = scan(db, &keyspace, greek.clone(), false)?;
    show.line(&format!("scan 0391..0396  {}", listed(&forward)))?;
    let mut backward = scan(db, &keyspace, greek, true)?;
    show.line(&format!("  and backward   {}", listed(&backward)))?;
    backward.reverse();
    prove(
        show,
        forward.len() == 5 && forward == backward,
        "both directions see the same five letters",
    )?;

    let symbols = scan(db, &keyspace, KeyRange::prefix(b"266"), false)?;
    let shown: Vec<_> = symbols.iter().map(|(code, _)| character(code).to_string()).collect();
    show.line(&format!("prefix 266       {}", shown.join(" ")))?;
    prove(show, symbols.len() == 16, "the prefix has its 16 characters")
}

/// The code and name of each record in `range`.
fn scan(
    db: &Db,
    keyspace: &Keyspace,
    range: KeyRange,
    reverse: bool,
) -> Outcome<Vec<(String, String)>> {
    let mut found = Vec::new();
    crate::place::for_each(db, keyspace, range, reverse, |key, value| {
        found.push((escape(key), name_of(value)));
        Ok::<_, Failure>(true)
    })?;
    Ok(found)
}

fn listed(found: &[(String, String)]) -> String {
    let names: Vec<_> = found
        .iter()
        .map(|(code, name)| {
            let short = name.rsplit(' ').next().unwrap_or(name);
            format!("{} {}", character(code), short.to_lowercase())
        })
        .collect();
    names.join("  ")
}

fn name_of(value: &[u8]) -> String {
    let object: Option<Map<String, Json>> = serde_json::from_slice(value).ok();
    let name = object.as_ref().and_then(|object| object.get("name")).and_then(Json::as_str);
    name.unwrap_or("a record without a name").to_owned()
}

/// The character of a hexadecimal code point, if it is one to be shown.
fn character(code: &str) -> char {
    let character = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
    character.filter(|character| !character.is_control()).unwrap_or('\u{fffd}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_file_is_whole() {
        assert_eq!(records().count(), 34_924);
        assert!(records().all(|line| line.split('\t').count() == columns().len()));
        assert_eq!(columns()[..2], ["code", "name"]);
    }

    #[test]
    fn a_record_holds_only_if_every_column_is_equal() {
        let value = br#"{"code":"41","name":"A"}"#;
        assert!(holds(value, &["code", "name"], &["41", "A"]));
        assert!(!holds(value, &["code", "name"], &["41", "B"]));
        assert!(!holds(value, &["code", "name", "more"], &["41", "A", ""]));
        assert!(!holds(b"torn", &["code"], &["41"]));
    }
}
