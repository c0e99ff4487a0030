//! Judges what a reading of a damaged image returned. Reads and writes no file, so each rule has a unit test.

use std::collections::{BTreeMap, BTreeSet};

/// Keys, each with its value, or `None` if it has none.
pub type Values = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The writes of an image in their order: a key, and its value or `None`.
#[derive(Clone, Default)]
pub struct History {
    pub writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// How many of them are in tables or in a checkpoint of a journal. The others are in a log.
    pub flushed: usize,
}

/// What a reading returned. Keys that it did not come to are in neither.
#[derive(Default)]
pub struct Reading {
    pub values: Values,
    /// Keys that failed to read.
    pub errors: BTreeSet<Vec<u8>>,
}

/// Writes made after the damage.
#[derive(Default)]
pub struct Later {
    /// Acknowledged.
    pub written: Values,
    /// Refused. The key may have any of its values.
    pub refused: BTreeSet<Vec<u8>>,
}

/// The losses that a reading may have without an error for the key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excuses {
    /// The first writes, none of which may be lost. Those after them may be, if what is left is a prefix.
    pub kept: usize,
    /// Ranges that were reported as lost. Other keys are judged as if these were sound.
    pub ranges: Vec<Range>,
    /// Whether keys may fail to read.
    pub may_fail: bool,
}

/// A range of keys, with both ends. `to` is `None` if nothing bounds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Range {
    pub from: Vec<u8>,
    pub to: Option<Vec<u8>>,
}

/// The result of a trial, or of one way to use its image.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Seen {
    /// All is as before, and nothing is reported.
    Harmless,
    /// The end of a log is truncated.
    Cut,
    /// The damage is reported.
    Reported,
}

impl Range {
    pub fn of_key(key: &[u8]) -> Self {
        Range { from: key.to_vec(), to: Some(key.to_vec()) }
    }

    fn contains(&self, key: &[u8]) -> bool {
        *self.from <= *key && self.to.as_ref().is_none_or(|to| key <= &to[..])
    }
}

impl Excuses {
    pub fn kept(kept: usize) -> Self {
        Excuses { kept, ranges: Vec::new(), may_fail: true }
    }
}

impl Reading {
    /// Asks for each key.
    pub fn of<E>(
        keys: BTreeSet<Vec<u8>>,
        mut get: impl FnMut(&[u8]) -> Result<Option<Vec<u8>>, E>,
    ) -> Self {
        let mut reading = Reading::default();
        for key in keys {
            match get(&key) {
                Ok(value) => drop(reading.values.insert(key, value)),
                Err(_) => drop(reading.errors.insert(key)),
            }
        }
        reading
    }
}

impl History {
    /// The history of an image whose writes are all in tables.
    pub fn all_flushed(self) -> Self {
        History { flushed: self.writes.len(), ..self }
    }

    pub fn keys(&self) -> BTreeSet<Vec<u8>> {
        self.writes.iter().map(|(key, _)| key.clone()).collect()
    }

    /// The first writes of which none may be lost in silence, if damage touched the bytes of these of the writes that
    /// are not flushed. A cut of the log takes the writes at its end, and no write of which every byte is left.
    pub fn kept_of(&self, touched: &[bool]) -> usize {
        assert_eq!(self.flushed + touched.len(), self.writes.len());
        self.writes.len() - touched.iter().rev().take_while(|is_touched| **is_touched).count()
    }

    /// Judges a reading.
    ///
    /// # Errors
    ///
    /// * A key that was never written has a value, or a key has a value that it never had.
    /// * A write that was acknowledged after the damage is not there.
    /// * A key fails to read that may not.
    /// * A key outside the excused ranges has an old value, unless all such keys have the values that they had after one
    ///   and the same write, which is not before `kept`. A key that fails to read excuses no other.
    pub fn judge(
        &self,
        reading: &Reading,
        excuses: &Excuses,
        later: &Later,
    ) -> Result<Seen, String> {
        self.check_values(&reading.values, later)?;
        for (key, value) in &later.written {
            let read = reading.values.get(key);
            if read.is_some_and(|read| read != value) || reading.errors.contains(key) {
                return Err(format!("{}, written after the damage, is lost", key.escape_ascii()));
            }
        }
        if let Some(key) = reading.errors.first().filter(|_| !excuses.may_fail) {
            return Err(format!("{} fails to read", key.escape_ascii()));
        }
        let is_judged = |key: &Vec<u8>| {
            !later.written.contains_key(key)
                && !later.refused.contains(key)
                && !excuses.ranges.iter().any(|range| range.contains(key))
        };
        let judged: Vec<_> = reading.values.iter().filter(|(key, _)| is_judged(key)).collect();
        let all = self.writes.len();
        let old = self.differing(&judged, all);
        if old.is_empty() {
            let is_reported = !reading.errors.is_empty() || !excuses.ranges.is_empty();
            return Ok(if is_reported { Seen::Reported } else { Seen::Harmless });
        }
        if (excuses.kept..all).any(|through| self.differing(&judged, through).is_empty()) {
            return Ok(Seen::Cut);
        }
        let names: Vec<_> = old.iter().map(|key| key.escape_ascii().to_string()).collect();
        Err(format!(
            "{} keys lost their last values in silence, with {} of {all} writes to be kept: {}",
            old.len(),
            excuses.kept,
            names.join(", ")
        ))
    }

    /// Fails for a value that was never written to its key.
    pub fn check_values(&self, values: &Values, later: &Later) -> Result<(), String> {
        for (key, value) in values {
            let is_version =
                |write: &(Vec<u8>, Option<Vec<u8>>)| write.0 == *key && write.1 == *value;
            let is_known = value.is_none()
                || later.refused.contains(key)
                || later.written.get(key) == Some(value)
                || self.writes.iter().any(is_version);
            if !is_known {
                return Err(format!("{} has a value that it never had", key.escape_ascii()));
            }
        }
        Ok(())
    }

    /// The keys that have not the values that they had after the first `through` writes.
    fn differing<'a>(
        &self,
        read: &[(&'a Vec<u8>, &'a Option<Vec<u8>>)],
        through: usize,
    ) -> Vec<&'a Vec<u8>> {
        let mut state: BTreeMap<&[u8], Option<&[u8]>> = BTreeMap::new();
        state
            .extend(self.writes[..through].iter().map(|(key, value)| (&key[..], value.as_deref())));
        let is_other = |(key, value): &&(&Vec<u8>, &Option<Vec<u8>>)| {
            state.get(&key[..]).copied().flatten() != value.as_deref()
        };
        read.iter().filter(is_other).map(|(key, _)| *key).collect()
    }
}

/// Judges a check during the other uses of the same copy: it reports whatever they do.
pub fn judge_check(way: &str, is_reported: bool, others: Seen) -> Result<Seen, String> {
    match (is_reported, others) {
        (true, _) => Ok(Seen::Reported),
        (false, Seen::Reported) => Err(format!("{way} reports nothing, but another use does")),
        (false, _) => Ok(Seen::Harmless),
    }
}

#[cfg(test)]
mod tests;
