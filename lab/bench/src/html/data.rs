//! The results, sorted by what the page asks for: numbers by engine, case and metric, and their
//! spread over the rounds.

use crate::results::{Distribution, Results, Series, Spread, spread};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// By round. Rounds are few.
type Rounds = BTreeMap<u32, f64>;

/// The results by engine, case and metric.
pub(super) struct Data<'a> {
    pub(super) results: &'a Results,
    /// In order of appearance.
    pub(super) engines: Vec<&'a str>,
    /// In order of appearance.
    pub(super) cases: Vec<&'a str>,
    /// With their units, in order of appearance.
    pub(super) metrics: Vec<(&'a str, &'a str)>,
    /// By case, engine and metric.
    numbers: HashMap<&'a str, HashMap<&'a str, HashMap<&'a str, Rounds>>>,
}

impl<'a> Data<'a> {
    pub(super) fn new(results: &'a Results) -> Self {
        let mut numbers: HashMap<&str, HashMap<&str, HashMap<&str, Rounds>>> = HashMap::new();
        let mut metrics: Vec<(&str, &str)> = Vec::new();
        for row in &results.rows {
            if row.value.is_finite() {
                let engines = numbers.entry(&row.case).or_default();
                let metrics = engines.entry(&row.engine).or_default();
                metrics.entry(&row.metric).or_default().insert(row.round, row.value);
            }
            if !metrics.iter().any(|(metric, _)| *metric == row.metric) {
                metrics.push((&row.metric, &row.unit));
            }
        }
        let names = |name: fn(&Results) -> Vec<&str>| first_seen(name(results));
        let engines = names(|results| {
            let rows = results.rows.iter().map(|row| row.engine.as_str());
            let series = results.series.iter().map(|series| series.engine.as_str());
            let spread = results.distributions.iter().map(|latency| latency.engine.as_str());
            rows.chain(series).chain(spread).collect()
        });
        let cases = names(|results| {
            let rows = results.rows.iter().map(|row| row.case.as_str());
            let series = results.series.iter().map(|series| series.case.as_str());
            let spread = results.distributions.iter().map(|latency| latency.case.as_str());
            rows.chain(series).chain(spread).collect()
        });
        Data { results, engines, cases, metrics, numbers }
    }

    /// The unit of `metric`; empty if nothing has that name.
    pub(super) fn unit(&self, metric: &str) -> &'a str {
        self.metrics.iter().find(|(name, _)| *name == metric).map_or("", |(_, unit)| unit)
    }

    fn rounds(&self, engine: &str, case: &str, metric: &str) -> Option<&Rounds> {
        self.numbers.get(case)?.get(engine)?.get(metric)
    }

    /// A metric over the rounds.
    pub(super) fn spread(&self, engine: &str, case: &str, metric: &str) -> Option<Spread> {
        spread_of(self.rounds(engine, case, metric)?.values().copied())
    }

    /// One metric divided by another of the same round, over the rounds.
    pub(super) fn quotient(&self, engine: &str, case: &str, of: &str, by: &str) -> Option<Spread> {
        let (of, by) = (self.rounds(engine, case, of)?, self.rounds(engine, case, by)?);
        quotients(of, by)
    }

    /// An engine's metric divided by that of the `baseline` in the same round, over the rounds that
    /// both have: what disturbs a round disturbs both sides of it. Where they share no round, their
    /// medians divided.
    pub(super) fn ratio(
        &self,
        engine: &str,
        baseline: &str,
        case: &str,
        metric: &str,
    ) -> Option<Spread> {
        let of = self.rounds(engine, case, metric)?;
        let by = self.rounds(baseline, case, metric)?;
        quotients(of, by).or_else(|| {
            let medians = [engine, baseline].map(|name| self.spread(name, case, metric));
            let [Some(of), Some(by)] = medians else { return None };
            spread_of([of.median / by.median])
        })
    }

    fn engines_of_all_cases(&self) -> impl Iterator<Item = &HashMap<&'a str, Rounds>> {
        self.numbers.values().flat_map(HashMap::values)
    }

    /// Whether some engine has the metric in some case.
    pub(super) fn has(&self, metric: &str) -> bool {
        self.engines_of_all_cases().any(|metrics| metrics.contains_key(metric))
    }

    /// How many rounds some number of the engine has in `case`.
    pub(super) fn rounds_of(&self, engine: &str, case: &str) -> usize {
        let metrics = self.numbers.get(case).and_then(|engines| engines.get(engine));
        let rounds = metrics.into_iter().flat_map(HashMap::values).flat_map(Rounds::keys);
        rounds.collect::<BTreeSet<_>>().len()
    }

    /// How many rounds there are at most.
    pub(super) fn most_rounds(&self) -> usize {
        let rounds = self.engines_of_all_cases().flat_map(HashMap::values);
        rounds.map(Rounds::len).max().unwrap_or(0)
    }

    /// The round whose throughput is the median one (of an even number, the slower), among those in
    /// `available`: what happened in it can be shown for all of them. The first round where no
    /// throughput is known.
    pub(super) fn typical_round(&self, engine: &str, case: &str, available: &[u32]) -> Option<u32> {
        let throughput = self.rounds(engine, case, "throughput");
        let known = |round: &u32| throughput.and_then(|rounds| rounds.get(round).copied());
        let mut rounds: Vec<(f64, u32)> =
            available.iter().filter_map(|round| Some((known(round)?, *round))).collect();
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let middle = rounds.len().checked_sub(1).map(|last| rounds[last / 2].1);
        middle.or_else(|| available.iter().min().copied())
    }

    /// The series of `metric` in `case`: of each engine the one of its typical round.
    pub(super) fn series(&self, case: &str, metric: &str) -> Vec<&'a Series> {
        let wanted = |series: &&Series| series.case == case && series.metric == metric;
        let all: Vec<&Series> = self.results.series.iter().filter(wanted).collect();
        self.typical(case, &all, |series| (&series.engine, series.round))
    }

    /// The distributions of the latency of `operation` in `case`, likewise.
    pub(super) fn distributions(&self, case: &str, operation: &str) -> Vec<&'a Distribution> {
        let wanted = |of: &&Distribution| of.case == case && of.operation == operation;
        let all: Vec<_> = self.results.distributions.iter().filter(wanted).collect();
        self.typical(case, &all, |of| (&of.engine, of.round))
    }

    /// Of `all` that `case` has, the one of each engine's typical round.
    fn typical<T>(&self, case: &str, all: &[&'a T], of: fn(&T) -> (&str, u32)) -> Vec<&'a T> {
        let of_engine = |engine: &&str| {
            let own = || all.iter().filter(|one| of(one).0 == *engine);
            let rounds: Vec<u32> = own().map(|one| of(one).1).collect();
            let round = self.typical_round(engine, case, &rounds)?;
            own().find(|one| of(one).1 == round).copied()
        };
        self.engines.iter().filter_map(of_engine).collect()
    }
}

fn quotients(of: &Rounds, by: &Rounds) -> Option<Spread> {
    spread_of(of.iter().filter_map(|(round, value)| Some(value / by.get(round)?)))
}

/// The spread of those `values` that are numbers.
fn spread_of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    spread(&values)
}

/// `names`, each once, in order of appearance.
pub(super) fn first_seen<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    names.into_iter().filter(|name| seen.insert(*name)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{results, row};
    use super::*;

    #[test]
    fn what_is_no_number_does_not_count() {
        let rows = [1.0, f64::NAN, 3.0, f64::INFINITY];
        let rows = rows.iter().zip(0..).map(|(&value, round)| row("one", "a", "m", round, value));
        let results = results(rows.collect());
        let spread = Data::new(&results).spread("one", "a", "m").unwrap();
        assert_eq!(spread, Spread { median: 2.0, least: 1.0, most: 3.0 });
    }

    #[test]
    fn a_ratio_compares_what_ran_in_the_same_round() {
        let rows = [("one", 0, 1.0), ("two", 0, 2.0), ("one", 1, 10.0), ("two", 1, 30.0)];
        let rows = rows.map(|(engine, round, value)| row(engine, "a", "m", round, value));
        let results = results(rows.to_vec());
        let ratio = Data::new(&results).ratio("two", "one", "a", "m").unwrap();
        assert_eq!(ratio, Spread { median: 2.5, least: 2.0, most: 3.0 });
    }

    #[test]
    fn the_typical_round_is_the_one_of_median_throughput() {
        let rows = [50.0, 10.0, 30.0, 20.0];
        let rows = rows.iter().zip(0..).map(|(&v, round)| row("one", "a", "throughput", round, v));
        let results = results(rows.collect());
        let data = Data::new(&results);
        assert_eq!(data.typical_round("one", "a", &[0, 1, 2]), Some(2));
        assert_eq!(data.typical_round("one", "a", &[0, 1, 2, 3]), Some(3));
        assert_eq!(data.typical_round("one", "b", &[7, 5]), Some(5));
        assert_eq!(data.typical_round("one", "a", &[]), None);
    }
}
