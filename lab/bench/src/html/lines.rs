//! Lines over time, and the distribution of latencies.

use super::axis;
use super::number::Quantity;
use super::plot::{Caption, Px, WIDTH, figure};
use super::scale::Scale;
use maud::{Markup, html};

/// A plot of lines.
pub(super) struct Lines<'a> {
    pub(super) title: &'a str,
    pub(super) hint: &'a str,
    /// Whether the numbers to the side span powers of ten.
    pub(super) is_log: bool,
    pub(super) quantity: Quantity,
    pub(super) lines: Vec<Line<'a>>,
}

/// One engine's line.
pub(super) struct Line<'a> {
    /// Its colour and dashes.
    pub(super) class: &'a str,
    /// Whose line it is.
    pub(super) engine: &'a str,
    pub(super) points: &'a [[f64; 2]],
}

const HEIGHT: f64 = 194.0 + axis::HEIGHT;
const TOP: f64 = 8.0;
const BOTTOM: f64 = HEIGHT - axis::HEIGHT;
const LEFT: f64 = 68.0;
const RIGHT: f64 = WIDTH - 18.0;

/// Lines over seconds. `None` if no line has two points: nothing is seen of one that the tables don't
/// say better.
pub(super) fn over_time(plot: &Lines<'_>) -> Option<Markup> {
    if !has_line(plot) {
        return None;
    }
    let x = Scale::linear(extent(plot, 0)?.1, 1.0, (LEFT, RIGHT));
    over(plot, &x, Quantity::Seconds, ("time", "time since the load began"))
}

/// Lines over a number of times something, on a logarithmic axis. `None` if no line has two points.
pub(super) fn over_times(plot: &Lines<'_>, title: &str) -> Option<Markup> {
    if !has_line(plot) {
        return None;
    }
    let (least, most) = extent(plot, 0)?;
    let x = Scale::log(least, most, (LEFT, RIGHT));
    over(plot, &x, Quantity::Ratio, (title, title))
}

fn has_line(plot: &Lines<'_>) -> bool {
    let is_usable = |point: &&[f64; 2]| point.iter().all(|value| value.is_finite());
    plot.lines.iter().any(|line| line.points.iter().filter(is_usable).count() > 1)
}

fn over(
    plot: &Lines<'_>,
    x: &Scale,
    across: Quantity,
    (over, title): (&str, &str),
) -> Option<Markup> {
    let (least, most) = extent(plot, 1)?;
    let side = (BOTTOM, TOP);
    let y = match plot.is_log {
        true => Scale::log(least, most, side),
        // A little room above, so that the highest point is seen to be the highest.
        false => Scale::linear(most * 1.05, plot.quantity.unit(most).0, side),
    };
    let up = match (plot.quantity.axis_title(), plot.is_log) {
        ("", _) => plot.title.to_owned(),
        (name, false) => name.to_owned(),
        (name, true) => format!("{name}, logarithmic"),
    };
    let label = format!("{} over {over}, by engine", plot.title);
    let caption = Caption { title: plot.title, hint: plot.hint, label };
    let drawing = draw(plot, (x, across), (&y, plot.quantity), (title, &up[..]));
    Some(figure(&caption, HEIGHT, drawing))
}

/// Cumulative distributions of microseconds: which part of all operations took at most how long.
/// The axis of parts spreads out the tail. `None` if there is no point to show.
pub(super) fn distribution(plot: &Lines<'_>) -> Option<Markup> {
    let (fastest, slowest) = extent(plot, 0)?;
    let parts = plot.lines.iter().flat_map(|line| line.points).map(|point| point[1]);
    let most = parts.filter(|part| *part < 1.0).fold(0.0, f64::max);
    let x = Scale::log(fastest, slowest, (LEFT, RIGHT));
    let y = Scale::nines(most, (BOTTOM, TOP));
    let titles = ("latency, logarithmic", "share of operations");
    let label = format!("{}: part of operations by latency, by engine", plot.title);
    let caption = Caption { title: plot.title, hint: plot.hint, label };
    Some(figure(
        &caption,
        HEIGHT,
        draw(plot, (&x, Quantity::Micros), (&y, Quantity::Share), titles),
    ))
}

/// The least above zero and the most of a coordinate of all points.
fn extent(plot: &Lines<'_>, coordinate: usize) -> Option<(f64, f64)> {
    let points = plot.lines.iter().flat_map(|line| line.points);
    let usable = points.filter(|point| point.iter().all(|value| value.is_finite()));
    let values: Vec<f64> = usable.map(|point| point[coordinate]).collect();
    let most = values.iter().copied().reduce(f64::max)?;
    let positive = values.into_iter().filter(|value| *value > 0.0);
    Some((positive.reduce(f64::min).unwrap_or(most), most))
}

fn draw(
    plot: &Lines<'_>,
    x: (&Scale, Quantity),
    y: (&Scale, Quantity),
    (across, up): (&str, &str),
) -> Markup {
    html! {
        (axis::title_below(across, (LEFT, RIGHT), BOTTOM))
        (axis::title_beside(up, (TOP, BOTTOM)))
        (axis::below(x.0, x.1, TOP, BOTTOM))
        (axis::beside(y.0, y.1, LEFT, RIGHT))
        @for line in &plot.lines {
            @let path = path(line.points, x.0, y.0);
            @if !path.is_empty() {
                path.{ "line " (line.class) } d=(path) { title { (line.engine) } }
            }
        }
    }
}

/// A path through `points`, in pieces where one is no number. Points that could not be distinguished
/// from their neighbours are left out.
fn path(points: &[[f64; 2]], x: &Scale, y: &Scale) -> String {
    let mut path = String::new();
    let mut pen: Option<(f64, f64)> = None;
    let mut skipped = None;
    for point in points {
        if !point.iter().all(|value| value.is_finite()) {
            path.extend(skipped.take());
            pen = None;
            continue;
        }
        let at = (x.at(point[0]), y.at(point[1]));
        let text = |command| format!("{command}{} {}", Px(at.0), Px(at.1));
        match pen {
            // The same unit of width and almost of height: kept only if the piece ends here.
            Some(last) if (last.0 - at.0).abs() < 0.5 && (last.1 - at.1).abs() < 0.5 => {
                skipped = Some(text('L'));
                continue;
            }
            Some(_) => path.push_str(&text('L')),
            // A line to itself: a piece of one point is a dot.
            None => path.push_str(&format!("{}h0", text('M'))),
        }
        skipped = None;
        pen = Some(at);
    }
    path.extend(skipped);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(points: &[[f64; 2]], is_log: bool) -> Option<String> {
        let line = Line { class: "esker shade0", engine: "esker", points };
        let quantity = Quantity::Rate;
        let plot = Lines { title: "T", hint: "", is_log, quantity, lines: vec![line] };
        over_time(&plot).map(Markup::into_string)
    }

    #[test]
    fn a_line_breaks_where_a_value_is_no_number() {
        let points = [[1.0, 5.0], [2.0, 6.0], [3.0, f64::NAN], [4.0, 7.0], [5.0, 8.0]];
        let drawn = drawn(&points, false).unwrap();
        let line = drawn.split("class=\"line").nth(1).unwrap();
        assert_eq!(line.split("<title>").next().unwrap().matches('M').count(), 2);
        assert!(!drawn.contains("NaN"));
    }

    #[test]
    fn numbers_of_times_are_at_equal_factors() {
        let points = [[1.0, 5.0], [10.0, 6.0], [100.0, 7.0]];
        let line = Line { class: "esker shade0", engine: "esker", points: &points };
        let quantity = Quantity::Bytes;
        let plot = Lines { title: "T", hint: "", is_log: false, quantity, lines: vec![line] };
        let drawn = over_times(&plot, "store, times the memory").unwrap().into_string();
        assert!(drawn.contains("store, times the memory"), "{drawn}");
        let middle = Px((LEFT + RIGHT) / 2.0);
        assert!(drawn.contains(&format!("L{middle} ")), "{drawn}");
    }

    #[test]
    fn zero_lies_at_the_foot_of_a_log_axis() {
        let drawn = drawn(&[[1.0, 0.0], [2.0, 100.0]], true).unwrap();
        assert!(drawn.contains(&format!(" {}h0", Px(BOTTOM))) && !drawn.contains("inf"));
    }

    #[test]
    fn a_single_point_makes_no_plot() {
        assert_eq!(drawn(&[[0.1, 5.0]], false), None);
        assert_eq!(drawn(&[[0.1, 5.0], [0.2, f64::NAN]], true), None);
    }

    #[test]
    fn nothing_but_odd_values_makes_no_plot() {
        assert_eq!(drawn(&[], false), None);
        assert_eq!(drawn(&[[f64::NAN, 1.0], [1.0, f64::INFINITY]], false), None);
    }

    #[test]
    fn all_zero_makes_a_plot() {
        assert!(drawn(&[[0.0, 0.0], [1.0, 0.0]], false).is_some());
    }

    #[test]
    fn points_too_close_to_be_seen_are_left_out() {
        let (x, y) = (Scale::linear(1.0, 1.0, (0.0, 100.0)), Scale::linear(1.0, 1.0, (0.0, 100.0)));
        let points: Vec<[f64; 2]> = (0..=10_000).map(|n| [f64::from(n) / 10_000.0, 0.5]).collect();
        let path = path(&points, &x, &y);
        assert!(path.matches('L').count() <= 201 && path.ends_with("L100 50"), "{path}");
    }

    #[test]
    fn the_last_operation_lies_at_the_top_of_a_distribution() {
        let points = [[1.0, 0.5], [10.0, 0.99], [100.0, 1.0]];
        let line = Line { class: "", engine: "esker", points: &points };
        let quantity = Quantity::Share;
        let plot = Lines { title: "T", hint: "", is_log: true, quantity, lines: vec![line] };
        let drawn = distribution(&plot).unwrap().into_string();
        assert!(drawn.contains(&format!("L{} {}", Px(RIGHT), Px(TOP))), "{drawn}");
    }
}
