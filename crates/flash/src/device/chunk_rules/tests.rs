use super::*;
use crate::Unit;

fn media(name: &str) -> Media {
    Media::new(&Preset::named(name).unwrap().with_chunks_per_unit(8), 1)
}

/// A chunk that is good.
fn good(media: &Media) -> Chunk {
    let mut chunks = (0..8).map(|number| Chunk { unit: Unit(3), number });
    chunks.find(|chunk| !media.is_bad(*chunk)).unwrap()
}

fn write(media: &mut Media, chunk: Chunk, numbers: std::ops::Range<u32>) {
    for number in numbers {
        media.write(chunk, number).unwrap();
        media.programmed(chunk);
    }
}

#[test]
fn a_chunk_is_written_in_order_and_reset_before_it_is_written_again() {
    let mut media = media("cnex-mlc");
    let chunk = good(&media);
    assert!(matches!(media.write(chunk, 1), Err(MediaError::OutOfOrder { expected: 0, .. })));
    let all = media.geometry().write_units();
    write(&mut media, chunk, 0..all);
    assert_eq!(media.write(chunk, all), Err(MediaError::Full(chunk)));
    media.reset(chunk).unwrap();
    assert_eq!(media.write(chunk, 0), Err(MediaError::HalfReset(chunk)));
    assert!(media.erased(chunk));
    assert_eq!(media.erases(chunk), 1);
    media.write(chunk, 0).unwrap();
}

#[test]
fn a_page_is_read_from_the_buffer_and_then_after_enough_later_writes() {
    let mut media = media("cnex-mlc");
    let (chunk, later) = (good(&media), media.geometry().mw_cunits);
    media.write(chunk, 0).unwrap();
    assert_eq!(media.read(chunk, 0), Ok(Place::Buffer));
    media.programmed(chunk);
    write(&mut media, chunk, 1..later);
    assert!(matches!(media.read(chunk, 0), Err(MediaError::TooEarly { missing: 1, .. })));
    write(&mut media, chunk, later..later + 1);
    assert_eq!(media.read(chunk, 0), Ok(Place::Medium));
    assert!(matches!(media.read(chunk, 1), Err(MediaError::TooEarly { .. })));
    let all = media.geometry().write_units();
    write(&mut media, chunk, later + 1..all);
    assert_eq!(media.read(chunk, all - 1), Ok(Place::Medium));
    assert!(matches!(media.read(chunk, all), Err(MediaError::Unwritten { .. })));
}

#[test]
fn an_upper_page_that_power_cuts_short_takes_its_lower_page_with_it() {
    let mut media = media("cnex-mlc");
    let (chunk, distance) = (good(&media), media.geometry().pair_distance);
    write(&mut media, chunk, 0..distance + 1);
    media.write(chunk, distance + 1).unwrap();
    media.write(chunk, distance + 2).unwrap();
    media.power_cut(&[chunk]);
    let is_lost = |number: &u32| matches!(media.read(chunk, *number), Err(MediaError::Lost { .. }));
    let lost: Vec<u32> = (0..distance + 2).filter(is_lost).collect();
    assert_eq!(lost, [1, distance + 1]);
    assert_eq!(media.written(chunk), distance + 2, "the buffer is gone");
    media.reset(chunk).unwrap();
    media.erased(chunk);
    write(&mut media, chunk, 0..2);
    assert!(!matches!(media.read(chunk, 1), Err(MediaError::Lost { .. })));
}

#[test]
fn a_lower_page_that_power_cuts_short_is_lost_alone() {
    let mut media = media("cnex-mlc");
    let chunk = good(&media);
    write(&mut media, chunk, 0..2);
    media.write(chunk, 2).unwrap();
    media.power_cut(&[chunk]);
    let is_lost = |number| matches!(media.read(chunk, number), Err(MediaError::Lost { .. }));
    assert_eq!([0, 1, 2].map(is_lost), [false, false, true]);
}

#[test]
fn a_buffer_that_survives_loses_nothing() {
    let mut media = media("wd-zn540");
    let chunk = good(&media);
    for number in 0..3 {
        media.write(chunk, number).unwrap();
    }
    media.power_cut(&[chunk]);
    assert!((0..3).all(|number| media.read(chunk, number) == Ok(Place::Medium)));
    assert_eq!(media.written(chunk), 3);
}

#[test]
fn what_had_no_room_in_a_buffer_that_survives_is_not_there() {
    let mut media = media("wd-zn540");
    let chunk = good(&media);
    for number in 0..3 {
        media.write(chunk, number).unwrap();
        media.waits(chunk);
    }
    media.buffered(chunk);
    assert_eq!(media.read(chunk, 0), Ok(Place::Buffer));
    assert!(matches!(media.read(chunk, 1), Err(MediaError::Unwritten { written: 1, .. })));
    media.power_cut(&[]);
    assert_eq!(media.written(chunk), 1);
    media.write(chunk, 1).unwrap();
}

#[test]
fn an_interrupted_reset_has_to_be_done_again() {
    let mut media = media("cnex-mlc");
    let chunk = good(&media);
    media.reset(chunk).unwrap();
    media.power_cut(&[]);
    assert_eq!(media.write(chunk, 0), Err(MediaError::HalfReset(chunk)));
    media.reset(chunk).unwrap();
    media.erased(chunk);
    media.write(chunk, 0).unwrap();
}

#[test]
fn a_chunk_wears_out() {
    let mut media = media("cnex-mlc");
    let chunk = good(&media);
    for _ in 0..media.endurance {
        media.reset(chunk).unwrap();
        assert!(media.erased(chunk));
    }
    media.reset(chunk).unwrap();
    assert!(!media.erased(chunk));
    assert_eq!(media.write(chunk, 0), Err(MediaError::Bad(chunk)));
    assert_eq!(media.reset(chunk), Err(MediaError::Bad(chunk)));
}

#[test]
fn some_chunks_are_bad_from_the_beginning() {
    let media = Media::new(&Preset::named("cnex-mlc").unwrap(), 1);
    let bad = media.chunks.iter().filter(|record| record.state == State::Bad).count();
    let per_mille = bad as f64 / media.chunks.len() as f64 * 1_000.0;
    assert!((9.0..11.0).contains(&per_mille), "{per_mille}");
}

#[test]
fn what_is_not_on_the_device_is_refused() {
    let mut media = media("cnex-mlc");
    let beyond = Chunk { unit: Unit(0), number: 8 };
    assert_eq!(media.write(beyond, 0), Err(MediaError::Unknown(beyond)));
    let beyond = Chunk { unit: Unit(128), number: 0 };
    assert_eq!(media.read(beyond, 0), Err(MediaError::Unknown(beyond)));
}
