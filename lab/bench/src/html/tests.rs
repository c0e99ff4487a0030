//! What the page must hold, whatever the results.

use super::page;
use crate::Row;
use crate::results::{
    Comparison, Distribution, Figure, Group, Line, Plane, Published, PublishedRow, Results, Series,
};
use std::collections::BTreeMap;

pub(super) fn row(engine: &str, case: &str, metric: &str, round: u32, value: f64) -> Row {
    let unit = match metric {
        "throughput" => "ops/s",
        name if name.ends_with("_us") => "us",
        name if name.ends_with("_bytes") => "bytes",
        name if name.ends_with("_amp") => "ratio",
        _ => "",
    };
    Row {
        engine: engine.into(),
        case: case.into(),
        metric: metric.into(),
        value,
        unit: unit.into(),
        round,
    }
}

pub(super) fn results(rows: Vec<Row>) -> Results {
    Results { experiment: "ycsb".into(), rows, complete: true, ..Results::default() }
}

/// Two engines, two cases, three rounds.
fn small() -> Results {
    let mut rows = Vec::new();
    for round in 0..3 {
        let value = f64::from(100 * (round + 1));
        for (engine, factor) in [("one", 1.0), ("two", 2.0)] {
            for case in ["a", "b"] {
                rows.push(row(engine, case, "throughput", round, value * factor));
            }
        }
    }
    results(rows)
}

/// The figure with this title.
fn figure<'a>(page: &'a str, title: &str) -> Option<&'a str> {
    let after = page.split_once(&format!("<strong>{title}</strong>"))?.1;
    Some(after.split_once("</figure>")?.0)
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

#[test]
fn every_engine_has_one_bar_in_every_case() {
    let page = page(&small());
    let throughput = figure(&page, "Throughput").unwrap();
    assert_eq!(count(throughput, "<rect"), 4);
    for bar in ["one, a: 200", "two, a: 400", "one, b: 200", "two, b: 400"] {
        assert_eq!(count(throughput, &format!("<title>{bar} ")), 1, "{bar}");
    }
}

#[test]
fn whiskers_reach_from_the_least_to_the_most() {
    let page = page(&small());
    let throughput = figure(&page, "Throughput").unwrap();
    // The axis runs from 6 at 0 to 288 at 600, the most of all: the whisker of "two" is from 200.
    let whisker = |from: &str, to: &str| {
        let whiskers = throughput.split("class=\"whisker\" d=\"M").skip(1);
        let ends = |path: &&str| path.starts_with(from) && path.contains(&format!("M{to} "));
        whiskers.filter(ends).count()
    };
    assert_eq!(whisker("100 ", "288"), 2, "{throughput}");
    assert_eq!(whisker("53 ", "147"), 2, "{throughput}");
}

#[test]
fn one_round_has_no_whiskers() {
    let one = results(vec![row("one", "a", "throughput", 0, 5.0)]);
    assert!(!page(&one).contains("class=\"whisker\""));
}

#[test]
fn the_summary_shows_times_below_a_microsecond() {
    let times = [("one", 0.042), ("two", 1.6)];
    let mut results = results(times.map(|(one, at)| row(one, "a", "scan_us", 0, at)).into());
    let (cases, metrics) = (vec!["a".into()], vec!["scan_us".into()]);
    results.groups = vec![Group { title: "Scans".into(), cases, metrics, ..Group::default() }];
    let page = page(&results);
    let summary = page.split("<tbody>").nth(1).unwrap().split("</tbody>").next().unwrap();
    assert!(summary.contains("42.0\u{202f}ns") && summary.contains("1.60\u{202f}µs"), "{summary}");
}

#[test]
fn the_summary_compares_with_the_baseline_and_ends_in_the_geometric_mean() {
    let against_one = page(&small());
    assert!(against_one.contains("<b>2.00×</b>"), "{against_one}");
    let against_two = super::page_against(&small(), "two");
    assert!(against_two.contains("<b>0.50×</b>"));
}

#[test]
fn what_was_not_measured_is_left_out() {
    let page = page(&small());
    for title in ["Write amplification", "Memory", "Processor time", "99th percentile"] {
        assert_eq!(figure(&page, title), None, "{title}");
    }
    assert!(!page.contains("<h2>Latency</h2>") && page.contains("<h2>Speed</h2>"));
}

#[test]
fn write_amplification_is_stacked_by_cause() {
    // Of 282 units of width for 4 times: one, one and two.
    assert_eq!(parts_of_write_amplification(&[1.0, 1.0, 2.0]), ["70.5", "70.5", "141"]);
}

#[test]
fn what_no_cause_is_told_for_is_shown_apart() {
    assert_eq!(parts_of_write_amplification(&[1.0, 0.0, 2.0]), ["70.5", "141", "70.5"]);
    assert_eq!(parts_of_write_amplification(&[]), ["282"]);
    // More is told than was written: it fills the whole.
    assert_eq!(parts_of_write_amplification(&[2.0, 2.0, 4.0]), ["70.5", "70.5", "141"]);
}

/// The widths of the parts of a write amplification of 4 with these causes.
fn parts_of_write_amplification(causes: &[f64]) -> Vec<String> {
    let mut rows = vec![row("one", "a", "write_amp", 0, 4.0)];
    rows.push(row("one", "a", "user_bytes", 0, 100.0));
    for (metric, share) in ["log_bytes", "flush_bytes", "compaction_bytes"].iter().zip(causes) {
        rows.push(row("one", "a", metric, 0, 100.0 * share));
    }
    let page = page(&results(rows));
    let figure = figure(&page, "Write amplification").unwrap();
    let widths = figure.split(" width=\"").skip(1).filter_map(|rest| rest.split('"').next());
    widths.map(str::to_owned).collect()
}

#[test]
fn text_from_the_results_is_escaped_everywhere() {
    let evil = "<script>alert(\"x\")</script>&'";
    let mut results = small();
    results.rows.iter_mut().for_each(|row| {
        row.engine = format!("{evil}{}", row.engine);
        row.case = evil.into();
    });
    results.rows.push(row(evil, evil, evil, 0, 1.0));
    results.rows.last_mut().unwrap().unit = evil.into();
    results.rows.push(row(evil, evil, &format!("{evil}_latency_p99_us"), 0, 1.0));
    results.experiment = evil.into();
    results.scale = evil.into();
    results.started = evil.into();
    results.command = vec![evil.into()];
    results.emulated = vec![evil.into()];
    let machine = &mut results.machine;
    for text in [&mut machine.cpu, &mut machine.kernel, &mut machine.filesystem, &mut machine.disk]
    {
        *text = evil.into();
    }
    let settings = BTreeMap::from([(evil.to_owned(), evil.to_owned())]);
    results.settings = [evil, "run"].map(|name| (name.to_owned(), settings.clone())).into();
    let (engine, case) = (evil.to_owned(), evil.to_owned());
    let points = vec![[1.0, 0.5], [2.0, 1.0]];
    results.distributions = vec![Distribution {
        engine: engine.clone(),
        case: case.clone(),
        round: 0,
        operation: evil.into(),
        points: points.clone(),
    }];
    let (metric, unit) = (evil.to_owned(), evil.to_owned());
    results.series = vec![Series { engine, case, round: 0, metric, unit, points }];
    let page = page(&results);
    assert!(!page.contains("<script") && !page.contains("alert(\"x\")"));
    assert!(page.contains("&lt;script&gt;"));
}

#[test]
fn odd_numbers_break_no_drawing() {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -5.0, 1e300, 1e-300, f64::MAX];
    let metrics = [
        "throughput",
        "operations",
        "cpu_s",
        "latency_p50_us",
        "latency_p99_us",
        "write_amp",
        "log_bytes",
        "space_amp_mean",
        "space_amp_peak",
        "rss_peak_mib",
        "read_latency_p99_us",
    ];
    let mut rows = Vec::new();
    for (round, value) in (0..).zip(odd) {
        for (at, case) in ["a", "b", "c"].into_iter().enumerate() {
            // Alone, or in bad company.
            let value = if at == 0 { value } else { odd[(round as usize * at) % odd.len()] };
            let of = |metric| row("one", case, metric, if at == 2 { 0 } else { round }, value);
            rows.extend(metrics.map(of));
        }
    }
    let mut results = results(rows);
    let points: Vec<[f64; 2]> = odd.iter().flat_map(|x| odd.iter().map(|y| [*x, *y])).collect();
    let (engine, case) = ("one".to_owned(), "a".to_owned());
    for metric in ["throughput", "latency_p99_us", "disk_bytes", "other"] {
        let (engine, case, metric) = (engine.clone(), case.clone(), metric.to_owned());
        let unit = "bytes".to_owned();
        let points = points.clone();
        results.series.push(Series { engine, case, round: 0, metric, unit, points });
    }
    let operation = "all".to_owned();
    results.distributions.push(Distribution { engine, case, round: 0, operation, points });
    let page = page(&results);
    assert!(page.contains("<svg"));
    for attribute in page.split('"').skip(1).step_by(2) {
        let is_broken = ["NaN", "inf", "e+", "e-3"].iter().any(|odd| attribute.contains(odd));
        assert!(!is_broken || attribute.contains("min-width"), "{attribute}");
    }
}

#[test]
fn no_results_still_make_a_page() {
    let page = page(&Results::default());
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    assert!(page.contains("Nothing has been measured.") && !page.contains("<svg"));
}

#[test]
fn an_interrupted_run_and_what_is_emulated_are_told_in_the_heading() {
    let mut results = small();
    let heading = |results: &Results| page(results).split("</header>").next().unwrap().to_owned();
    assert!(!heading(&results).contains("Partial") && !heading(&results).contains("Emulated"));
    results.complete = false;
    assert!(heading(&results).contains("Partial: </strong>the run goes on"));
    results.ended = "interrupted".into();
    results.emulated = vec!["persistent memory".into(), "flash".into()];
    assert!(heading(&results).contains("Partial: </strong>the run ended early: interrupted."));
    assert!(heading(&results).contains("Emulated: </strong>persistent memory; flash"));
}

#[test]
fn the_heading_names_the_program_that_ran() {
    let results = Results { version: "1.2.3".into(), commit: "abcdef".into(), ..small() };
    assert!(page(&results).contains("esker 1.2.3, commit abcdef"));
}

#[test]
fn quick_figures_beside_published_ones_are_called_so() {
    let published = Published { source: "A paper".into(), ..Published::default() };
    let group = Group { cases: vec!["a".into()], ..Group::default() };
    let mut results = Results { groups: vec![group], published: vec![published], ..small() };
    assert!(!page(&results).contains("Quick: "));
    results.scale = "quick".into();
    assert!(page(&results).contains("Quick: "));
}

#[test]
fn every_plot_names_its_axes_and_is_a_file_of_its_own() {
    let results = small();
    let page = page(&results);
    let plots = super::plots(&results);
    assert!(!plots.is_empty() && plots.len() == page.matches("<figure").count());
    for (name, svg) in &plots {
        assert!(name.ends_with(".svg") && !name.contains(['/', ' ']), "{name}");
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{name}");
        assert!(svg.contains("class=\"axis\"") && svg.contains("--paper"), "{name}");
    }
}

#[test]
fn a_plot_by_itself_says_what_it_shows_and_of_which_engines() {
    let results = small();
    for (name, svg) in super::plots(&results) {
        let engines = results.engines();
        let named = engines.iter().filter(|engine| svg.contains(&format!(">{engine}</text>")));
        // A comparison with the first engine does not draw that one.
        let drawn = engines.len() - usize::from(name.contains("compared"));
        assert_eq!(named.count(), drawn, "{name}");
        assert!(svg.contains("<text class=\"group\" x=\"0\" y=\"16\">"), "{name}");
        assert!(!svg.contains("prefers-color-scheme"), "{name}");
    }
}

#[test]
fn lines_are_those_of_the_median_round() {
    let mut results = small();
    for round in 0..3 {
        results.series.push(Series {
            engine: "one".into(),
            case: "a".into(),
            round,
            metric: "throughput".into(),
            unit: "ops/s".into(),
            points: vec![[1.0, 300.0], [2.0, f64::from(round) * 100.0]],
        });
    }
    let page = page(&results);
    let article = page.split("<article>").nth(1).unwrap();
    let figure = figure(article, "Throughput").unwrap();
    let line = figure.split("<path class=\"line ").collect::<Vec<_>>();
    assert_eq!(line.len(), 2, "one line an engine");
    // The axis runs from 194 at 0 to 8 at 315: the median round ends at 100.
    assert!(line[1].contains("L342 135\""), "{}", line[1]);
}

#[test]
fn every_drawing_says_what_it_shows() {
    let page = page(&small());
    assert_eq!(count(&page, "<svg viewBox=\"0 0 360"), count(&page, "role=\"img\" aria-label=\""));
    for svg in page.split("role=\"img\"").skip(1) {
        assert!(svg.split_once('>').unwrap().1.starts_with("<title>"));
    }
}

fn grouped() -> Results {
    let group = |title: &str, cases: &[&str], metrics: &[&str]| Group {
        title: title.into(),
        about: "What to know.".into(),
        cases: cases.iter().map(|&case| case.into()).collect(),
        metrics: metrics.iter().map(|&metric| metric.into()).collect(),
        series: vec!["throughput".into()],
        planes: Vec::new(),
        across: None,
    };
    let mut results = small();
    results.rows.push(row("two", "c", "throughput", 0, 7.0));
    results.rows.push(row("two", "c", "write_amp", 0, 3.0));
    let groups = [("Both", &["a", "b"][..]), ("One", &["c", "never"]), ("Unmeasured", &["later"])];
    results.groups =
        groups.map(|(title, cases)| group(title, cases, &["throughput", "write_amp"])).into();
    results
}

#[test]
fn groups_are_shown_by_themselves_in_place_of_all_cases() {
    let page = page(&grouped());
    assert!(page.contains("<h2>Both</h2>") && page.contains("<h2>One</h2>"));
    assert!(!page.contains("<h2>Unmeasured</h2>") && !page.contains("<h2>Summary</h2>"));
    let both = page.split("<h2>Both</h2>").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(both.contains("2.00×") && !both.contains(">c</th>"), "{both}");
    let one = page.split("<h2>One</h2>").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(one.contains(">c</th>") && one.contains("Write amplification"), "{one}");
    assert!(!one.contains("never"), "it was not measured");
}

#[test]
fn published_figures_stand_beside_the_ratios_measured() {
    let mut results = grouped();
    let comparison = |engine: &str| Comparison {
        title: format!("{engine} here"),
        engine: engine.into(),
        baseline: "one".into(),
        metric: "throughput".into(),
    };
    let row = |name: &str, ratio, case: &str| PublishedRow {
        name: name.into(),
        ratio,
        cases: vec![case.into(), case.into()],
    };
    results.published = vec![Published {
        source: "Somebody, 2022".into(),
        about: "Elsewhere.".into(),
        column: "theirs".into(),
        comparisons: vec![comparison("two"), comparison("three")],
        rows: vec![row("A", 1.0282, "a"), row("B", 0.9755, "b"), row("Z", 1.1, "z")],
        figures: Vec::new(),
    }];
    let page = page(&results);
    let table = page.split("Somebody, 2022").nth(1).unwrap().split("</section>").next().unwrap();
    for cells in [
        "A</th><td>+2.82%</td><td>2.00×</td><td>–</td>",
        "B</th><td>−2.45%</td><td>2.00×</td><td>–</td>",
        "Z</th><td>+10.00%</td><td>–</td><td>–</td>",
    ] {
        assert!(table.contains(cells), "{cells} in {table}");
    }
    let another = Published { column: "theirs, too".into(), ..results.published[0].clone() };
    results.published.push(another);
    let page = self::page(&results);
    assert!(page.contains("theirs, too"));
    assert_eq!(count(&page, "Somebody, 2022"), 1, "tables of one source follow one text");
}

#[test]
fn published_figures_stand_beside_the_numbers_measured() {
    let mut results = grouped();
    let figure = |engine: &str| Figure {
        system: "Theirs".into(),
        words: "about 3".into(),
        engine: engine.into(),
        case: "c".into(),
        metric: "write_amp".into(),
    };
    let figures = vec![figure("two"), figure("three")];
    results.published = vec![Published { figures, ..Published::default() }];
    let page = page(&results);
    assert!(page.contains("<td>about 3</td><td>3.00×</td><td>two</td>"), "{page}");
    assert!(page.contains("<td>about 3</td><td>–</td><td>three</td>"));
    assert!(!page.contains("Workload"), "there are no ratios");
}

#[test]
fn a_group_may_have_planes_of_its_cases() {
    let mut results = grouped();
    results.rows.push(row("two", "c", "space_amp", 0, 1.5));
    let plane = |case: &str| Plane {
        case: case.into(),
        across: "space_amp".into(),
        up: "write_amp".into(),
        line: Line { name: "the limit".into(), points: vec![[1.4, 2.0], [1.6, 1.5]] },
    };
    results.groups[1].planes = vec![plane("c"), plane("never")];
    let page = page(&results);
    let drawn = figure(&page, "c").unwrap();
    assert_eq!(count(drawn, "<circle"), 1);
    assert!(drawn.contains("two: 3.00× written, 1.50× space") && drawn.contains("the limit"));
    assert_eq!(figure(&page, "never"), None, "it was not measured");
}

#[test]
fn many_engines_have_a_row_each() {
    let heads = |engines: u32| {
        let rows = (0..engines).map(|n| row(&format!("engine {n}"), "a", "throughput", 0, 1.0));
        let page = page(&results(rows.collect()));
        let table = page.split("<table").nth(1).unwrap().to_owned();
        count(table.split("</thead>").next().unwrap(), "<th ")
    };
    assert_eq!((heads(8), heads(9)), (9, 3));
}

#[test]
fn bars_of_many_engines_have_their_names() {
    let named = |engines: u32| {
        let rows = (0..engines).map(|n| row(&format!("engine {n}"), "a", "throughput", 0, 1.0));
        let page = page(&results(rows.collect()));
        count(figure(&page, "Throughput").unwrap(), ">engine 3</text>")
    };
    assert_eq!((named(8), named(9)), (0, 1));
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = page(&small());
    for reference in ["http:", "https:", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(reference), "{reference}");
    }
}

#[test]
fn many_bars_are_spread_over_several_drawings() {
    let rows = |case: String| ["one", "two", "three"].map(|e| row(e, &case, "throughput", 0, 1.0));
    let page = page(&results((0..30).flat_map(|n| rows(format!("case {n}"))).collect()));
    let figure = figure(&page, "Throughput (1 of 3)").unwrap();
    assert_eq!(count(figure, "<rect"), 30);
}
