//! The six published files by their facts, and what is wrong with others.

use super::*;
use crate::ycsb::Preset;

fn read(text: &str) -> Result<PropertyFile> {
    parse(text, "some.file", &Options::default())
}

fn message(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

/// What the published files of the workloads say, each in the order that it has there.
const PUBLISHED: [(Preset, &str); 6] = [
    (Preset::A, "read=0.5 update=0.5 scan=0 insert=0 zipfian"),
    (Preset::B, "read=0.95 update=0.05 scan=0 insert=0 zipfian"),
    (Preset::C, "read=1 update=0 scan=0 insert=0 zipfian"),
    (Preset::D, "read=0.95 update=0 scan=0 insert=0.05 latest"),
    (Preset::E, "read=0 update=0 scan=0.95 insert=0.05 zipfian"),
    (Preset::F, "read=0.5 update=0 scan=0 insert=0 readmodifywrite=0.5 zipfian"),
];

/// A file laid out as the published ones are.
fn published(facts: &str, class: &str, scans: &str) -> String {
    let mut text = format!(
        "# A licence.   \n#\n\n# Some words: with = signs\n#   and more\n\n\
         recordcount=1000\noperationcount=1000\nworkload={class}\n\nreadallfields=true\n\n"
    );
    for fact in facts.split(' ') {
        text += &match fact.split_once('=') {
            Some((operation, share)) => format!("{operation}proportion={share}\n"),
            None => format!("\nrequestdistribution={fact}\n{scans}\n\n"),
        };
    }
    text
}

#[test]
fn the_published_files_are_the_presets() {
    for (preset, facts) in PUBLISHED {
        for class in CORE_WORKLOADS {
            let scans = match preset {
                Preset::E => "\nmaxscanlength=100\n\nscanlengthdistribution=uniform",
                _ => "",
            };
            let file = read(&published(facts, class, scans)).unwrap();
            assert_eq!(file.warnings, []);
            assert_eq!((file.rate, file.duration), (None, None));
            let size = Options { records: 1_000, operations: 1_000, ..Options::default() };
            let mut expected = preset.options(&size);
            if preset != Preset::E {
                // They have no scans, and leave YCSB's default.
                expected.scans.most = 1_000;
            }
            assert_eq!(file.options, expected, "workload {preset}");
        }
    }
}

#[test]
fn a_file_without_properties_has_the_defaults_of_ycsb_and_the_size_that_is_asked_for() {
    let base = Options {
        records: 77,
        operations: 88,
        threads: 3,
        seed: 9,
        verify: true,
        mix: Preset::G.mix(),
        fields: 1,
        ..Options::default()
    };
    let options = parse("", "none", &base).unwrap().options;
    assert_eq!((options.records, options.operations, options.threads), (77, 88, 3));
    assert_eq!(options.mix, Mix { read: 0.95, update: 0.05, ..Mix::NONE });
    assert_eq!((options.requests, options.seed), (Requests::Uniform, 9));
    assert!(options.verify, "what is asked for by other means stays");
    assert_eq!((options.fields, options.field_bytes, options.scans.most), (10, 100, 1_000));
}

#[test]
fn every_property_has_its_effect() {
    let file = read(
        "recordcount: 5000\noperationcount 600\nthreadcount=4\ninsertstart=100\ninsertcount=50\n\
         fieldcount=3\nfieldlength=7\nfieldlengthdistribution=constant\nwriteallfields=FALSE\n\
         insertorder=ordered\nzeropadding=12\nminscanlength=2\nmaxscanlength=9\n\
         scanlengthdistribution=zipfian\nrequestdistribution=hotspot\nhotspotdatafraction=0.1\n\
         hotspotopnfraction=0.9\ndataintegrity=true\ntarget=2500\nmaxexecutiontime=90\n",
    )
    .unwrap();
    let expected = Options {
        records: 5_000,
        operations: 600,
        threads: 4,
        load_start: 100,
        load_count: Some(50),
        mix: Mix { read: 0.95, update: 0.05, ..Mix::NONE },
        requests: Requests::HotSpot { records: 0.1, requests: 0.9 },
        fields: 3,
        field_bytes: 7,
        least_value_bytes: None,
        update: Update::Field,
        key_order: KeyOrder::Ordered,
        key_digits: 12,
        scans: Scans { least: 2, most: 9, lengths: Lengths::Zipfian },
        verify: true,
        seed: 1,
    };
    assert_eq!(file.options, expected);
    assert_eq!(file.rate, Some(2_500.0));
    assert_eq!(file.duration, Some(Duration::from_secs(90)));
    assert_eq!(file.warnings, []);
}

#[test]
fn the_exponential_distribution_has_its_parameters() {
    let text = "requestdistribution=exponential\nexponential.percentile=90\nexponential.frac=0.5";
    let expected = Requests::Exponential { percentile: 90.0, fraction: 0.5 };
    assert_eq!(read(text).unwrap().options.requests, expected);
    assert_eq!(
        read("requestdistribution=exponential").unwrap().options.requests,
        Requests::EXPONENTIAL
    );
}

#[test]
fn zero_means_no_limit_and_the_last_of_two_values_counts() {
    let file = read("target=0\nmaxexecutiontime=0\nrecordcount=1\nrecordcount=2000 ").unwrap();
    assert_eq!((file.rate, file.duration, file.options.records), (None, None, 2_000));
}

#[test]
fn properties_without_effect_are_listed_with_their_lines() {
    let warnings = read("table=usertable\n# no\nrecordcont=5\n").unwrap().warnings;
    let texts: Vec<_> = warnings.iter().map(Warning::to_string).collect();
    assert_eq!(
        texts,
        [
            "some.file, line 1: the property \"table\" has no effect here",
            "some.file, line 3: the property \"recordcont\" has no effect here",
        ]
    );
}

#[test]
fn nonsense_is_refused_with_its_name_value_and_line() {
    for (text, start) in [
        ("recordcount=many", "recordcount is many: "),
        ("recordcount=-5", "recordcount is -5: "),
        ("recordcount=0", "recordcount is 0: "),
        ("operationcount=1e6", "operationcount is 1e6: "),
        ("threadcount=0", "threadcount is 0: "),
        ("fieldcount=0", "fieldcount is 0: "),
        ("fieldlength=", "fieldlength is : "),
        ("readproportion=-1", "readproportion is -1: "),
        ("readproportion=NaN", "readproportion is NaN: "),
        ("readproportion=half", "readproportion is half: "),
        ("requestdistribution=zipf", "requestdistribution is zipf: there are uniform, zipfian"),
        ("fieldlengthdistribution=zipfian", "fieldlengthdistribution is zipfian: "),
        ("scanlengthdistribution=latest", "scanlengthdistribution is latest: "),
        ("insertorder=random", "insertorder is random: what there is here: hashed, ordered"),
        ("writeallfields=yes", "writeallfields is yes: "),
        ("maxscanlength=0", "maxscanlength is 0: "),
        ("insertcount=0", "insertcount is 0: "),
        ("operationcount=999999999999999", "operationcount is 999999999999999: "),
        ("target=-3", "target is -3: "),
        ("maxexecutiontime=inf", "maxexecutiontime is inf: "),
        ("maxexecutiontime=1e300", "maxexecutiontime is "),
        ("workload=site.ycsb.workloads.TimeSeriesWorkload", "workload is site.ycsb.workloads.Time"),
        ("table=\\u12", "a property is \\u12: "),
    ] {
        let message = message(&format!("# a comment\n{text}"));
        assert!(message.starts_with(start), "{message}");
        assert!(message.ends_with("(some.file, line 2)"), "{message}");
    }
}

#[test]
fn proportions_that_are_all_zero_are_refused() {
    let message = message("readproportion=0\nupdateproportion=0");
    assert!(message.starts_with("the sum of the proportions is 0: "), "{message}");
    assert!(message.ends_with("(some.file)"), "{message}");
}

#[test]
fn sizes_that_other_settings_replace_are_left_to_the_last_check() {
    for (text, name) in [
        ("recordcount=4\nthreadcount=9", "threads is 9: "),
        ("insertstart=9999999", "insertstart is 9999999: "),
        ("insertcount=9999999", "insertcount is 9999999: "),
        ("fieldcount=1000000\nfieldlength=1000000", "field-size is 1000000: "),
        ("dataintegrity=true\nfieldcount=1\nfieldlength=15", "field-size is 15: "),
    ] {
        let options = read(text).unwrap().options;
        let message = options.check().unwrap_err().to_string();
        assert!(message.starts_with(name), "{message}");
        let sizes = Options { records: 10_000_000, threads: 2, fields: 1, ..options };
        Options { field_bytes: 100, ..sizes }.check().unwrap();
    }
}

#[test]
fn a_size_that_does_not_come_from_the_file_is_not_blamed_on_it() {
    let base = Options { threads: 0, ..Options::default() };
    let message = parse("recordcount=5", "some.file", &base).unwrap_err().to_string();
    assert!(message.starts_with("threads is 0: ") && !message.contains("file"), "{message}");
}
