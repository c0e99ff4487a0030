//! Latencies by the kind of operation.

use crate::Latencies;
use esker_workload::OperationKind;
use std::time::Duration;

/// A set of latencies for each kind of operation there was.
///
/// In the order of their names, so that two runs report the same in the same order.
#[derive(Clone, Debug, Default)]
pub struct ByKind(Vec<(OperationKind, Box<Latencies>)>);

impl ByKind {
    /// Adds the latency of one operation.
    #[inline]
    pub fn record(&mut self, kind: OperationKind, latency: Duration) {
        self.of(kind).record(latency);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &ByKind) {
        other.iter().for_each(|(kind, latencies)| self.of(kind).merge(latencies));
    }

    #[inline]
    fn of(&mut self, kind: OperationKind) -> &mut Latencies {
        // A dozen at most: looking at each is quicker than a hash.
        let at = match self.0.iter().position(|(own, _)| *own == kind) {
            Some(at) => at,
            None => self.add(kind),
        };
        &mut self.0[at].1
    }

    #[cold]
    fn add(&mut self, kind: OperationKind) -> usize {
        let at = self.0.partition_point(|(own, _)| own.name() < kind.name());
        self.0.insert(at, (kind, Box::default()));
        at
    }

    /// The kinds there were, each with its latencies.
    pub fn iter(&self) -> impl Iterator<Item = (OperationKind, &Latencies)> {
        self.0.iter().map(|(kind, latencies)| (*kind, &**latencies))
    }

    /// How many operations of this kind there were.
    pub fn count(&self, kind: OperationKind) -> u64 {
        self.iter().find(|(own, _)| *own == kind).map_or(0, |(_, latencies)| latencies.count())
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
