//! Parsers on well-formed, odd and broken input, without a database; and an import into one that fails.

use super::lines::Lines;
use super::*;

/// Each record as `key=value`, each bad line as `!line what`.
fn parse(format: Format, rules: Rules, text: &[u8]) -> Result<Vec<String>, String> {
    parse_limited(format, rules, text, 1 << 20)
}

fn parse_limited(
    format: Format,
    rules: Rules,
    text: &[u8],
    limit: usize,
) -> Result<Vec<String>, String> {
    let mut lines = Lines::with_limit(text, limit);
    let mut parser = match format {
        Format::Jsonl => Parser::Json(JsonLines::new(rules)),
        format => match Delimited::open(format, rules, &mut lines).unwrap() {
            Opened::Parser(parser) => Parser::Delimited(parser),
            Opened::Empty => return Ok(Vec::new()),
            Opened::Unfit(what) => return Err(what),
            Opened::BadRecord(Bad { line, what, .. }) => {
                return Err(format!("line {line}: {what}"));
            }
        },
    };
    let mut record = Record::default();
    let mut out = Vec::new();
    loop {
        match parser.next(&mut lines, &mut record).unwrap() {
            Step::End => return Ok(out),
            Step::Bad(Bad { line, what, .. }) => out.push(format!("!{line} {what}")),
            Step::Record => out.push(format!(
                "{}={}",
                record.key.escape_ascii(),
                String::from_utf8_lossy(&record.value)
            )),
        }
    }
}

fn columns(key: &str, value: Option<&str>) -> Rules {
    Rules { key: Some(key.into()), value: value.map(Into::into), ..Rules::default() }
}

#[test]
fn a_column_is_named_or_numbered() {
    let text = b"id\tname\n7\tseven\n8\teight\n";
    for rules in [columns("id", Some("name")), columns("1", Some("2")), columns("id", Some("2"))] {
        assert_eq!(parse(Format::Tsv, rules, text).unwrap(), ["7=seven", "8=eight"]);
    }
    let error = parse(Format::Tsv, columns("nme", None), text).unwrap_err();
    assert_eq!(error, "there is no column nme; the columns are id, name");
    assert!(parse(Format::Tsv, columns("3", None), text).is_err());
    assert!(parse(Format::Tsv, columns("0", None), text).is_err());
}

#[test]
fn the_whole_record_becomes_a_json_object_in_column_order() {
    let text = b"b\ta\n1\tsay \"hi\"\\\n";
    let records = parse(Format::Tsv, columns("b", None), text).unwrap();
    assert_eq!(records, [r#"1={"b":"1","a":"say \"hi\"\\"}"#]);
    let records =
        parse(Format::Csv, Rules { no_header: true, ..columns("2", None) }, b"x,y\n").unwrap();
    assert_eq!(records, [r#"y={"1":"x","2":"y"}"#]);
}

#[test]
fn without_a_key_the_file_must_be_an_export() {
    let text = b"esker:key\tesker:value\na\\x00\\t\tb\\\\\n";
    assert_eq!(parse(Format::Tsv, Rules::default(), text).unwrap(), [r"a\x00\t=b\"]);
    let error = parse(Format::Tsv, Rules::default(), b"key\tvalue\n").unwrap_err();
    assert!(error.contains("--key COLUMN, one of key, value"), "{error}");
}

#[test]
fn escapes_are_taken_literally_unless_asked_for() {
    let text = b"k\tv\na\\tb\tC:\\new\n";
    assert_eq!(parse(Format::Tsv, columns("k", Some("v")), text).unwrap(), [r"a\\tb=C:\new"]);
    let escaped = Rules { escaped: true, ..columns("k", Some("v")) };
    assert_eq!(parse(Format::Tsv, escaped.clone(), text).unwrap(), ["a\\tb=C:\new"]);
    let bad = parse(Format::Tsv, escaped, b"k\tv\na\t\\q\n").unwrap();
    assert_eq!(bad, ["!2 column v: \\q is no escape"]);
}

#[test]
fn csv_quotes_hold_commas_newlines_and_quotes() {
    let text = b"k,v\r\n1,\"a,b\"\r\n2,\"two\r\nlines\"\r\n3,\"say \"\"hi\"\"\"\r\n\r\n4,in 5\" wide\n5,\"\"\n6,";
    let records = parse(Format::Csv, columns("k", Some("v")), text).unwrap();
    assert_eq!(records, ["1=a,b", "2=two\r\nlines", "3=say \"hi\"", "4=in 5\" wide", "5=", "6="]);
}

#[test]
fn a_bad_csv_record_is_named_by_the_line_it_begins_on() {
    let text = b"k,v\n\n\n1,\"a\nb\"c\n2,fine\n3,\"open\n4,x\n";
    let records = parse(Format::Csv, columns("k", Some("v")), text).unwrap();
    assert_eq!(
        records,
        [
            "!4 text follows a closing quote; double a quote that is meant",
            "2=fine",
            "!7 a quote is never closed"
        ]
    );
}

#[test]
fn an_open_quote_swallows_a_bounded_amount() {
    let mut text = b"k,v\n1,\"open\n".to_vec();
    text.extend(b"23456789,a\n".repeat(100));
    let records = parse_limited(Format::Csv, columns("k", Some("v")), &text, 64).unwrap();
    assert_eq!(records[0], "!2 the record is longer than 64 B");
    assert!(records.len() > 50 && records[1..].iter().all(|record| record == "23456789=a"));
}

#[test]
fn ragged_rows_are_bad_lines() {
    let records = parse(Format::Tsv, columns("k", Some("v")), b"k\tv\n1\n2\tb\n3\tc\td\n").unwrap();
    assert_eq!(
        records,
        ["!2 1 fields where the first line has 2", "2=b", "!4 3 fields where the first line has 2"]
    );
}

#[test]
fn bytes_that_are_no_text_are_fine_as_a_field_but_not_inside_json() {
    let text = b"k\tv\n\xff\t\xfe\n";
    assert_eq!(parse(Format::Tsv, columns("k", Some("v")), text).unwrap(), ["\\xff=\u{fffd}"]);
    let records = parse(Format::Tsv, columns("k", None), text).unwrap();
    assert!(records[0].starts_with("!2 column k is not UTF-8"), "{records:?}");
}

#[test]
fn an_empty_file_holds_no_records() {
    for format in [Format::Tsv, Format::Csv, Format::Jsonl] {
        for text in [&b""[..], b"\n\r\n", b"\xef\xbb\xbf"] {
            assert_eq!(parse(format, columns("k", None), text).unwrap(), [""; 0], "{text:?}");
        }
    }
}

#[test]
fn json_fields_are_found_by_name_and_by_path() {
    let text = br#"{"id": 12, "user": {"name": "Ada", "tags": [1, 2]}, "a.b": "literal"}"#;
    let one = |key: &str, value: &str| {
        parse(Format::Jsonl, columns(key, Some(value)), text).unwrap().remove(0)
    };
    assert_eq!(one("id", "user.name"), "12=Ada");
    assert_eq!(one("user.name", "user"), r#"Ada={"name": "Ada", "tags": [1, 2]}"#);
    assert_eq!(one("a.b", "user.tags"), "literal=[1, 2]");
    assert_eq!(one("id", "user.age"), "!1 there is no field user.age");
    assert_eq!(one("user", "id"), "!1 field user is an object and can't be a key");
}

#[test]
fn a_whole_json_record_keeps_its_very_text() {
    let text = b"  {\"n\": 1.10000000000000000000001e400, \"k\":\"\\u00e9\"}\t\r\n";
    let records = parse(Format::Jsonl, columns("k", None), text).unwrap();
    assert_eq!(records, [r#"\xc3\xa9={"n": 1.10000000000000000000001e400, "k":"\u00e9"}"#]);
}

#[test]
fn broken_json_is_named_with_its_line_and_column() {
    let text =
        b"{\"k\":1}\n\n{\"k\":}\n[1]\nnull\n{\"k\":2} x\n{\"k\":null}\n\xff\n{\"k\":\"\\ud800\"}\n";
    let records = parse(Format::Jsonl, columns("k", Some("k")), text).unwrap();
    assert_eq!(records[0], "1=1");
    assert!(
        records[1].starts_with("!3 not a JSON object: expected value, at column"),
        "{records:?}"
    );
    for (record, line) in records[1..].iter().zip(3..) {
        assert!(record.starts_with(&format!("!{line} ")), "{record}");
    }
    assert_eq!(records.len(), 8);
}

#[test]
fn deeply_nested_json_does_no_harm() {
    let nested = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = format!("{{\"k\":{nested}}}\n{{\"k\":{}}}\n{{\"k\":2}}\n", "[".repeat(100_000));
    let records = parse(Format::Jsonl, columns("k", None), text.as_bytes()).unwrap();
    assert_eq!(records[0], "!1 field k is an array and can't be a key");
    assert!(records[1].starts_with("!2 not a JSON object"), "{}", records[1]);
    assert_eq!(records[2], "2={\"k\":2}");
}

#[test]
fn json_lines_of_an_export_need_no_key() {
    let text = b"{\"key\":\"a\",\"value\":\"1\"}\n{\"key_hex\":\"00ff\",\"value_hex\":\"62\"}\n{\"key\":\"a\",\"key_hex\":\"00\",\"value\":\"\"}\n{\"id\":1}\n";
    let records = parse(Format::Jsonl, Rules::default(), text).unwrap();
    assert_eq!(records[..2], ["a=1", r"\x00\xff=b"]);
    assert_eq!(records[2], "!3 one of key and key_hex was expected");
    assert!(records[3].contains("name the key's field with --key"), "{}", records[3]);
}

#[test]
fn the_prefix_comes_before_every_key() {
    for format in [Format::Tsv, Format::Csv] {
        let rules = Rules { key_prefix: b"p/".to_vec(), ..columns("k", Some("k")) };
        assert_eq!(parse(format, rules, b"k\n1\n").unwrap(), ["p/1=1"]);
    }
    let rules = Rules { key_prefix: b"p/".to_vec(), ..columns("k", Some("k")) };
    assert_eq!(parse(Format::Jsonl, rules, b"{\"k\":1}").unwrap(), ["p/1=1"]);
}

#[test]
fn an_import_that_the_disk_ends_says_how_many_records_it_has_kept() {
    use esker::env::Env;
    use esker::{KeyspaceSettings, Settings};
    use esker_storage::fault::FaultStorage;

    let disk = FaultStorage::new(esker_base::Rng::new(1));
    disk.set_space_limit(Some(2 << 20));
    let settings = Settings::default().segment_bytes(256 << 10).memory_bytes(16 << 20);
    let db = Db::open_with(Env::over(std::sync::Arc::new(disk)), settings).unwrap();
    let keyspace = db.keyspace("default", KeyspaceSettings::default()).unwrap();
    let mut rng = esker_base::Rng::new(2);
    let rows: String = (0..100_000).map(|n| format!("{n:06}\t{:0100}\n", rng.next_u64())).collect();
    let job = Job {
        name: "rows".into(),
        format: Format::Tsv,
        rules: Rules { no_header: true, ..columns("1", Some("2")) },
        on_error: OnError::Fail,
        interrupt: &Interrupt::default(),
        progress: &Progress::hidden(),
        way: Way::Batches,
        batch_bytes: 16 << 10,
        line_bytes: 1 << 20,
    };
    let begun = job.begin(rows.as_bytes()).unwrap();
    let tally = job.run(&db, &keyspace, begun);
    assert!(matches!(tally.stopped, Some(Stopped::Failed(_))), "{tally:?}");
    let kept = db.range(&keyspace, ..).count() as u64;
    assert!(0 < tally.records && tally.records == kept && kept < 100_000, "{tally:?}, {kept} kept");
}
