//! The proportions and the skew of whole runs.

use super::*;
use std::collections::{HashMap, HashSet};

/// How many operations of each kind `preset` does in a hundred.
fn percentages(preset: Preset) -> [f64; 5] {
    let options = preset.options(&Options { operations: 20_000, ..small() });
    let steps = run(&Run::new(&options), 1, &loaded(&options)).unwrap();
    OperationKind::ALL.map(|kind| count(&steps, kind) as f64 / 200.0)
}

#[test]
fn every_workload_has_the_operations_of_its_definition() {
    for (preset, expected) in [
        (Preset::A, [50.0, 50.0, 0.0, 0.0, 0.0]),
        (Preset::B, [95.0, 5.0, 0.0, 0.0, 0.0]),
        (Preset::C, [100.0, 0.0, 0.0, 0.0, 0.0]),
        (Preset::D, [95.0, 0.0, 5.0, 0.0, 0.0]),
        (Preset::F, [50.0, 0.0, 0.0, 0.0, 50.0]),
        (Preset::G, [0.0, 0.0, 100.0, 0.0, 0.0]),
        (Preset::H, [50.0, 0.0, 50.0, 0.0, 0.0]),
        (Preset::Rmw, [0.0, 0.0, 0.0, 0.0, 100.0]),
    ] {
        let percentages = percentages(preset);
        for (got, expected) in percentages.into_iter().zip(expected) {
            // Five standard deviations of a half are 1.8.
            assert!((got - expected).abs() < 1.8, "workload {preset}: {percentages:?}");
            assert!(expected > 0.0 || got == 0.0, "workload {preset}: {percentages:?}");
        }
    }
}

#[test]
fn workload_e_scans_up_to_a_hundred_records() {
    let options = Preset::E.options(&Options { operations: 2_000, ..small() });
    let steps = run(&Run::new(&options), 1, &loaded(&options)).unwrap();
    let scans = count(&steps, OperationKind::Scan);
    assert!((1_850..1_950).contains(&scans), "{scans}");
    let longest = steps.iter().map(|step| step.bytes).max().unwrap();
    assert!((98 * 60..=100 * 63).contains(&longest), "{longest}");
}

/// The numbers that `draws` requests ask for, and how often, most often first.
fn requested(requests: Requests, mix: Mix, draws: u64) -> Vec<(u64, u64)> {
    let options = Options { records: 10_000, operations: 10_000, requests, mix, ..small() };
    options.check().unwrap();
    let mut chooser = super::requests::RecordChooser::new(&options, 0);
    let mut rng = stream(2, "requests", 0);
    let mut counts = HashMap::new();
    for _ in 0..draws {
        *counts.entry(chooser.next(&mut rng, options.records)).or_default() += 1;
    }
    let mut counts: Vec<(u64, u64)> = counts.into_iter().collect();
    counts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    counts
}

#[test]
fn zipfian_requests_have_the_frequencies_of_the_formula_and_lie_anywhere() {
    let draws = 1_000_000;
    let counts = requested(Requests::Zipfian, Mix { read: 1.0, ..Mix::NONE }, draws);
    // Ranks are drawn among ten billion: rank i has 1 / i^0.99 / zeta(10^10). What lies beyond the
    // ten thousand records falls on all of them evenly.
    let zeta = 26.469_028_201_783_02;
    let head: f64 = (1..=10_000).map(|rank| f64::from(rank).powf(-0.99)).sum();
    let background = (1.0 - head / zeta) / 10_000.0;
    for (rank, &(_, hits)) in counts.iter().enumerate().take(2) {
        let expected = ((rank + 1) as f64).powf(-0.99) / zeta + background;
        let share = hits as f64 / draws as f64;
        assert!((share / expected - 1.0).abs() < 0.03, "rank {rank}: {share} of {expected}");
    }
    // Gray's approximation is within 2% of all draws for any range of ranks.
    let expected: f64 = (1..=100).map(|rank| f64::from(rank).powf(-0.99)).sum::<f64>() / zeta;
    let hottest: HashSet<u64> =
        (0..100).map(|rank| crate::distributions::scatter(rank) % 10_001).collect();
    let top: u64 = counts.iter().filter(|c| hottest.contains(&c.0)).map(|c| c.1).sum();
    let top = top as f64 / draws as f64;
    assert!((top - expected - 100.0 * background).abs() < 0.02, "{top} of {expected}");
    let low = counts[..100].iter().filter(|(number, _)| *number < 5_000).count();
    assert!((30..70).contains(&low), "{low} of the 100 hottest in the low half");
}

#[test]
fn the_hot_records_stay_hot_when_inserts_are_expected() {
    // Twice 10,000 x 0.05 more records are reserved: the numbers are drawn among 11,000.
    let mix = Mix { read: 0.95, insert: 0.05, ..Mix::NONE };
    let options = Options { records: 10_000, operations: 10_000, mix, ..small() };
    let mut early = super::requests::RecordChooser::new(&options, 0);
    let mut rng = stream(2, "requests", 0);
    let mut hottest = |limit| {
        let mut counts = HashMap::<u64, u64>::new();
        for _ in 0..50_000 {
            let number = early.next(&mut rng, limit);
            assert!(number < limit);
            *counts.entry(number).or_default() += 1;
        }
        counts.into_iter().max_by_key(|&(_, hits)| hits).unwrap().0
    };
    assert_eq!(hottest(10_000), hottest(10_500));
}

#[test]
fn latest_requests_fall_with_the_age_by_the_formula() {
    let draws = 1_000_000;
    let counts = requested(Requests::Latest, Mix { read: 1.0, ..Mix::NONE }, draws);
    let zeta: f64 = (1..=10_000).map(|rank| f64::from(rank).powf(-0.99)).sum();
    for age in 0..2u64 {
        let hits = counts.iter().find(|&&(number, _)| number == 9_999 - age).unwrap().1;
        let expected = ((age + 1) as f64).powf(-0.99) / zeta;
        let share = hits as f64 / draws as f64;
        assert!((share / expected - 1.0).abs() < 0.02, "age {age}: {share} of {expected}");
    }
    let newest: u64 = counts.iter().filter(|c| c.0 >= 9_900).map(|c| c.1).sum();
    let expected: f64 = (1..=100).map(|rank| f64::from(rank).powf(-0.99)).sum::<f64>() / zeta;
    assert!((newest as f64 / draws as f64 - expected).abs() < 0.02);
}

#[test]
fn uniform_and_sequential_requests_reach_every_loaded_record() {
    let read = Mix { read: 1.0, ..Mix::NONE };
    let uniform = requested(Requests::Uniform, read, 1_000_000);
    assert_eq!(uniform.len(), 10_000);
    assert!(uniform[0].1 < 160 && uniform[9_999].1 > 50, "a hundred each was expected");
    let sequential = requested(Requests::Sequential, read, 20_000);
    assert!(sequential.len() == 10_000 && sequential.iter().all(|&(_, hits)| hits == 2));
}

#[test]
fn a_hot_spot_gets_its_share_of_the_requests() {
    let counts = requested(Requests::HOT_SPOT, Mix { read: 1.0, ..Mix::NONE }, 100_000);
    let hot: u64 = counts.iter().filter(|c| c.0 < 2_000).map(|c| c.1).sum();
    assert!((79_000..81_000).contains(&hot), "{hot}");
}

#[test]
fn exponential_requests_have_their_percentile_among_the_newest() {
    let requests = Requests::Exponential { percentile: 90.0, fraction: 0.25 };
    let counts = requested(requests, Mix { read: 1.0, ..Mix::NONE }, 100_000);
    let newest: u64 = counts.iter().filter(|c| c.0 >= 7_500).map(|c| c.1).sum();
    // The oldest there are stand for all older ones: 90% of a whole of 99.99%.
    assert!((89_500..90_600).contains(&newest), "{newest}");
}
