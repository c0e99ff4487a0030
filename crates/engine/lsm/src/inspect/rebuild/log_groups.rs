//! Which logs a rebuild takes writes from.
//!
//! A flushed log may stay under its own name for a while, to be used again. Its writes must not be put
//! above tables that hold newer ones, and compaction sets seqnos in tables to 0. So a log is used only
//! if what follows it is in logs as well, up to the newest write:
//!
//! ```text
//!   log 5          log 8      log 9        what tables have had
//!   [601..900]     [1100..1199][1200..]     ..1199
//!   left out       used        used
//! ```
//!
//! If writes between the tables and the newest logs are missing, they are lost. Then the logs that
//! follow the tables are used, and not the newest. So it is behind damage in a log.

use esker_base::Seqno;
use std::ops::Range;

/// The seqnos of the whole frames of a log.
pub(super) type Span = Range<Seqno>;

/// The first of the logs `spans`, in order of their epochs, that is used. `flushed` is the last write
/// that is known to have been in tables. `damaged` is the first log with unflushed frames behind damage.
/// `None` if none is used.
pub(super) fn first_used(spans: &[Span], flushed: Seqno, damaged: Option<usize>) -> Option<usize> {
    let mut groups: Vec<(usize, Span)> = Vec::new();
    for (at, span) in spans.iter().enumerate().filter(|(_, span)| !span.is_empty()) {
        match groups.last_mut() {
            // A recovery may have given seqnos of an incomplete end to other writes.
            Some((_, group)) if span.start <= group.end => group.end = group.end.max(span.end),
            _ => groups.push((at, span.clone())),
        }
    }
    if let Some(damaged) = damaged {
        let group = groups.iter().rev().find(|(at, _)| *at <= damaged);
        let holds = |(_, group): &&(usize, Span)| group.contains(&spans[damaged].start);
        return Some(group.filter(holds).map_or(damaged, |(at, _)| *at));
    }
    let (newest, last) = groups.last()?;
    if last.start > flushed + 1
        && let Some((at, _)) = groups.iter().find(|(_, group)| group.contains(&(flushed + 1)))
    {
        return Some(*at);
    }
    // Logs that end before may have been flushed long ago.
    (last.end > flushed).then_some(*newest)
}

#[cfg(test)]
mod tests {
    use super::Span;

    fn first_used(spans: &[Span], flushed: u64) -> Option<usize> {
        super::first_used(spans, flushed, None)
    }

    #[test]
    fn logs_are_used_from_the_last_gap_on() {
        assert_eq!(first_used(&[1..5, 5..9, 9..12], 0), Some(0));
        assert_eq!(first_used(&[1..5, 5..9, 9..12], 8), Some(0));
        assert_eq!(first_used(&[601..901, 1100..1200, 1200..1201], 1199), Some(1));
        // Tables whose seqnos are 0 tell nothing.
        assert_eq!(first_used(&[601..901, 1100..1200, 1200..1201], 0), Some(1));
        assert_eq!(
            first_used(&[0..0, 5..9, 0..0, 8..12, 0..0], 0),
            Some(1),
            "one overlaps another"
        );
    }

    #[test]
    fn writes_behind_lost_ones_are_not_used() {
        assert_eq!(first_used(&[601..901, 1200..1201], 700), Some(0));
        assert_eq!(first_used(&[601..901, 1200..1201], 600), Some(0));
        assert_eq!(first_used(&[601..901, 1200..1201], 900), Some(1), "nothing tells what is lost");
    }

    #[test]
    fn writes_behind_damage_are_not_used() {
        assert_eq!(super::first_used(&[1..5, 7..9, 9..12, 20..30], 0, Some(2)), Some(1));
        assert_eq!(super::first_used(&[1..5, 7..9, 0..0, 20..30], 0, Some(2)), Some(2));
    }

    #[test]
    fn logs_that_end_before_the_last_flush_are_not_used() {
        assert_eq!(first_used(&[601..801, 801..901], 900), Some(0));
        assert_eq!(first_used(&[601..801, 801..901], 901), None);
        assert_eq!(first_used(&[0..0, 0..0], 0), None);
        assert_eq!(first_used(&[], 0), None);
    }
}
