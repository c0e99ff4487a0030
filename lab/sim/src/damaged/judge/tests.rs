use super::*;

fn write(key: &str, value: u8) -> (Vec<u8>, Option<Vec<u8>>) {
    (key.into(), Some(vec![value]))
}

/// `a`, `b` and `c` are in tables. Then `a`, `b` and `c` were written again, to the log.
fn history() -> History {
    let writes = ["a", "b", "c"].map(|key| write(key, 1));
    let again = ["a", "b", "c"].map(|key| write(key, 2));
    History { writes: [writes, again].concat(), flushed: 3 }
}

/// A reading: 0 is no value, and 9 an error.
fn reading(values: &[(&str, u8)]) -> Reading {
    let mut reading = Reading::default();
    for &(key, value) in values {
        match value {
            9 => drop(reading.errors.insert(key.into())),
            0 => drop(reading.values.insert(key.into(), None)),
            value => drop(reading.values.insert(key.into(), Some(vec![value]))),
        }
    }
    reading
}

fn judge(excuses: &Excuses, values: &[(&str, u8)]) -> Result<Seen, String> {
    history().judge(&reading(values), excuses, &Later::default())
}

#[test]
fn the_last_values_are_harmless() {
    assert_eq!(judge(&Excuses::kept(6), &[("a", 2), ("b", 2), ("c", 2)]), Ok(Seen::Harmless));
}

#[test]
fn a_manifest_that_was_cut_to_nothing_is_a_loss() {
    let lost = [("a", 0), ("b", 0), ("c", 0)];
    // The empty database is a prefix of the writes, but tables had three.
    assert!(judge(&Excuses::kept(3), &lost).is_err());
    assert!(judge(&Excuses::kept(6), &lost).is_err());
    assert_eq!(judge(&Excuses::kept(0), &lost), Ok(Seen::Cut));
}

#[test]
fn an_end_of_the_log_is_cut_off_only_as_far_as_damage_reaches() {
    let cut = [("a", 2), ("b", 1), ("c", 1)];
    assert_eq!(judge(&Excuses::kept(4), &cut), Ok(Seen::Cut));
    assert!(judge(&Excuses::kept(5), &cut).is_err());
    // Not the end of the log: `b` is lost, and the later `c` is there.
    assert!(judge(&Excuses::kept(3), &[("a", 2), ("b", 1), ("c", 2)]).is_err());
}

#[test]
fn damage_excuses_the_writes_at_the_end_whose_bytes_it_touches() {
    assert_eq!(history().kept_of(&[false, true, true]), 4);
    assert_eq!(history().kept_of(&[true, true, false]), 6);
    assert_eq!(history().kept_of(&[true, true, true]), 3);
    assert_eq!(history().all_flushed().kept_of(&[]), 6);
}

#[test]
fn an_error_of_one_key_excuses_no_other() {
    assert_eq!(judge(&Excuses::kept(6), &[("a", 9), ("b", 2), ("c", 2)]), Ok(Seen::Reported));
    assert!(judge(&Excuses::kept(6), &[("a", 9), ("b", 1), ("c", 2)]).is_err());
}

#[test]
fn a_range_that_was_skipped_excuses_its_keys_alone() {
    let ranges = vec![Range { from: b"b".to_vec(), to: Some(b"bz".to_vec()) }];
    let excuses = Excuses { ranges, ..Excuses::kept(6) };
    assert_eq!(judge(&excuses, &[("a", 2), ("b", 0), ("c", 2)]), Ok(Seen::Reported));
    assert!(judge(&excuses, &[("a", 2), ("b", 0), ("c", 1)]).is_err());
    // A value that was never written passes nowhere.
    assert!(judge(&excuses, &[("a", 2), ("b", 7), ("c", 2)]).is_err());
}

#[test]
fn after_a_repair_every_key_can_be_read() {
    let excuses = Excuses { may_fail: false, ..Excuses::kept(0) };
    assert!(judge(&excuses, &[("a", 2), ("b", 9), ("c", 2)]).is_err());
}

#[test]
fn unknown_keys_and_values_are_refused() {
    assert!(judge(&Excuses::kept(0), &[("a", 2), ("b", 2), ("c", 2), ("d", 2)]).is_err());
    assert!(judge(&Excuses::kept(0), &[("a", 3), ("b", 2), ("c", 2)]).is_err());
}

#[test]
fn what_was_written_after_the_damage_is_there() {
    let mut later = Later::default();
    later.written.insert("b".into(), Some(vec![5]));
    later.refused.insert("c".into());
    let judge =
        |values: &[(&str, u8)]| history().judge(&reading(values), &Excuses::kept(6), &later);
    assert_eq!(judge(&[("a", 2), ("b", 5), ("c", 1)]), Ok(Seen::Harmless));
    for lost in [2, 0, 9] {
        assert!(judge(&[("a", 2), ("b", lost), ("c", 2)]).is_err());
    }
    // A write after the damage does not hide what was lost before.
    assert!(judge(&[("a", 1), ("b", 5), ("c", 2)]).is_err());
}

#[test]
fn a_check_is_silent_only_if_all_else_is() {
    assert_eq!(judge_check("check", true, Seen::Harmless), Ok(Seen::Reported));
    assert_eq!(judge_check("check", false, Seen::Cut), Ok(Seen::Harmless));
    assert!(judge_check("check", false, Seen::Reported).is_err());
}
