//! Results in a few lines: the middle of the rounds, how far apart they are, and the engines next to
//! each other.

use super::Results;
use crate::table::{columns_of, grouped, short};

/// A metric over several rounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The middle value, or the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

/// The spread of `values`, or `None` if there are none.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (&least, &most) = (sorted.first()?, sorted.last()?);
    let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
    Some(Spread { median: (sorted[low] + sorted[high]) / 2.0, least, most })
}

/// The geometric mean, the one that ratios have. `None` if there is nothing to take it of, or
/// something not above zero.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let is_sound = !values.is_empty() && values.iter().all(|value| *value > 0.0);
    is_sound
        .then(|| (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// The throughput of each case and engine: the median with its spread, and how it compares with the
/// first engine's; the medians of what else is asked for first.
///
/// Where a round measured both, the ratio is the median of the ratios of each round, so that what
/// slows the machine for a whole round does not count. Where none did, as where runs were merged, the
/// medians are compared.
pub fn summary_table(results: &Results) -> String {
    let results = &results.sound();
    let engines = results.engines();
    let several_rounds = results.rows.iter().any(|row| row.round > 0);
    let titles = ["case", "engine", "ops/s", "least – most", "ratio"].into_iter();
    let titles = titles.chain(MEDIANS.map(|(title, _)| title)).map(str::to_owned);
    let mut lines: Vec<Vec<String>> = vec![titles.collect()];
    for case in results.cases() {
        for engine in &engines {
            let Some(spread) = spread(&results.values(engine, case, "throughput")) else {
                continue;
            };
            let range = format!("{} – {}", grouped(spread.least), grouped(spread.most));
            let ratio = ratio(results, engine, engines[0], case).filter(|_| engines.len() > 1);
            let mut line = vec![case.to_owned(), (*engine).to_owned(), grouped(spread.median)];
            line.push(if several_rounds { range } else { String::new() });
            line.push(ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")));
            line.extend(MEDIANS.map(|(_, metric)| {
                let spread = self::spread(&results.values(engine, case, metric));
                spread.map_or(String::new(), |spread| short(spread.median))
            }));
            lines.push(line);
        }
    }
    columns_of(&lines)
}

/// What the table shows in addition to throughput, by its title.
const MEDIANS: [(&str, &str); 6] = [
    ("p50 µs", "latency_p50_us"),
    ("p99 µs", "latency_p99_us"),
    ("write amp", "write_amp"),
    ("peak space amp", "space_amp_peak"),
    ("CPU s", "cpu_s"),
    ("peak memory MiB", "rss_peak_mib"),
];

/// The throughput of `engine` by that of `first`: the median over the rounds that have both, or,
/// where they were never measured in one round, the one's median by the other's.
fn ratio(results: &Results, engine: &str, first: &str, case: &str) -> Option<f64> {
    let of = |name: &str, round: u32| {
        let mut rows = results.rows.iter().filter(|row| {
            row.engine == name
                && row.case == case
                && row.round == round
                && row.metric == "throughput"
        });
        rows.next().map(|row| row.value)
    };
    let rounds = results.rows.iter().map(|row| row.round + 1).max()?;
    let ratios: Vec<f64> = (0..rounds)
        .filter_map(|round| Some(of(engine, round)? / of(first, round)?))
        .filter(|ratio| ratio.is_finite())
        .collect();
    let median = |name| Some(spread(&results.values(name, case, "throughput"))?.median);
    let of_medians = || Some(median(engine)? / median(first)?).filter(|ratio| ratio.is_finite());
    spread(&ratios).map(|spread| spread.median).or_else(of_medians)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{results, row};
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle() {
        let of = |values: &[f64]| spread(values).map(|spread| spread.median);
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(of(&[]), None);
        let Spread { least, most, .. } = spread(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((least, most), (1.0, 3.0));
    }

    #[test]
    fn ratios_have_a_geometric_mean() {
        assert!((geometric_mean(&[2.0, 0.5]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
    }

    #[test]
    fn a_ratio_compares_what_ran_in_the_same_round() {
        let rows = [(0, 100.0, 200.0), (1, 10.0, 20.0), (2, 50.0, 150.0)];
        let rows = rows.into_iter().flat_map(|(round, first, second)| {
            [row("one", "a", round, first), row("two", "a", round, second)]
        });
        let results = results(rows.collect());
        assert_eq!(
            summary_table(&results),
            "\
case  engine  ops/s  least – most  ratio
a     one        50      10 – 100   1.00
a     two       150      20 – 200   2.00
"
        );
    }

    #[test]
    fn engines_that_share_no_round_are_compared_by_their_medians() {
        let rows = [row("one", "a", 0, 10.0), row("one", "a", 1, 30.0), row("two", "a", 2, 40.0)];
        assert_eq!(ratio(&results(rows.to_vec()), "two", "one", "a"), Some(2.0));
    }

    #[test]
    fn one_engine_in_one_round_has_neither_spread_nor_ratio() {
        let results = results(vec![row("one", "a", 0, 1_000.0)]);
        assert_eq!(summary_table(&results), "case  engine  ops/s\na     one     1,000\n");
    }
}
