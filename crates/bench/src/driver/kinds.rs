//! Latencies by the kind of operation.

use crate::Latencies;
use esker_workload::OperationKind;
use std::time::Duration;

/// A set of latencies for each kind of operation there was.
#[derive(Clone, Debug, Default)]
pub struct ByKind([Option<Box<Latencies>>; OperationKind::ALL.len()]);

impl ByKind {
    /// Adds the latency of one operation.
    #[inline]
    pub fn record(&mut self, kind: OperationKind, latency: Duration) {
        self.0[kind as usize].get_or_insert_default().record(latency);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &ByKind) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            if let Some(other) = other {
                own.get_or_insert_default().merge(other);
            }
        }
    }

    /// The kinds there were, each with its latencies.
    pub fn iter(&self) -> impl Iterator<Item = (OperationKind, &Latencies)> {
        let kinds = OperationKind::ALL.into_iter().zip(&self.0);
        kinds.filter_map(|(kind, latencies)| Some((kind, &**latencies.as_ref()?)))
    }

    /// How many operations of this kind there were.
    pub fn count(&self, kind: OperationKind) -> u64 {
        self.0[kind as usize].as_ref().map_or(0, |latencies| latencies.count())
    }

    /// All kinds as one.
    pub fn all(&self) -> Latencies {
        let mut all = Latencies::new();
        self.iter().for_each(|(_, latencies)| all.merge(latencies));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_kept_apart_and_can_be_had_as_one() {
        let (mut one, mut two) = (ByKind::default(), ByKind::default());
        one.record(OperationKind::Read, Duration::from_micros(1));
        two.record(OperationKind::Read, Duration::from_micros(3));
        two.record(OperationKind::Scan, Duration::from_micros(8));
        one.merge(&two);
        let means: Vec<_> = one.iter().map(|(kind, all)| (kind, all.mean_us())).collect();
        assert_eq!(means, [(OperationKind::Read, 2.0), (OperationKind::Scan, 8.0)]);
        assert_eq!((one.count(OperationKind::Read), one.count(OperationKind::Insert)), (2, 0));
        assert_eq!((one.all().count(), one.all().mean_us()), (3, 4.0));
    }
}
