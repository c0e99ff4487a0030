//! Axes: lines across the plot at round numbers, and the numbers next to them.

use super::number::Quantity;
use super::plot::Px;
use super::scale::Scale;
use maud::{Markup, html};

/// Units of length that a mark and its text take, along and across a line of text.
const MARK_WIDTH: f64 = 41.0;
const MARK_HEIGHT: f64 = 28.0;

/// An axis below the plot; its lines run up from `bottom` to `top`.
pub(super) fn below(scale: &Scale, quantity: Quantity, top: f64, bottom: f64) -> Markup {
    html! {
        @for value in scale.between() {
            path.grid.minor d={ "M" (Px(scale.at(value))) " " (Px(top)) "V" (Px(bottom)) } {}
        }
        @for (value, text) in marks(scale, quantity, MARK_WIDTH) {
            @let x = Px(scale.at(value));
            path.{ (line_class(scale, value)) } d={ "M" (x) " " (Px(top)) "V" (Px(bottom)) } {}
            text.tick x=(x) y=(Px(bottom + 15.0)) text-anchor="middle" { (text) }
        }
    }
}

/// Height that an axis below the plot takes, with its numbers and its title.
pub(super) const HEIGHT: f64 = 36.0;

/// The title of an axis below the plot.
pub(super) fn title_below(title: &str, (left, right): (f64, f64), bottom: f64) -> Markup {
    html! {
        @if !title.is_empty() {
            text.axis x=(Px((left + right) / 2.0)) y=(Px(bottom + 30.0)) text-anchor="middle" { (title) }
        }
    }
}

/// The title of an axis left of the plot, upright.
pub(super) fn title_beside(title: &str, (top, bottom): (f64, f64)) -> Markup {
    let middle = Px((top + bottom) / 2.0);
    html! {
        @if !title.is_empty() {
            text.axis transform={ "translate(9 " (middle) ") rotate(-90)" } text-anchor="middle" { (title) }
        }
    }
}

/// An axis left of the plot; its lines run from `left` to `right`.
pub(super) fn beside(scale: &Scale, quantity: Quantity, left: f64, right: f64) -> Markup {
    html! {
        @for value in scale.between() {
            path.grid.minor d={ "M" (Px(left)) " " (Px(scale.at(value))) "H" (Px(right)) } {}
        }
        @for (value, text) in marks(scale, quantity, MARK_HEIGHT) {
            @let y = scale.at(value);
            path.{ (line_class(scale, value)) } d={ "M" (Px(left)) " " (Px(y)) "H" (Px(right)) } {}
            text.tick x=(Px(left - 6.0)) y=(Px(y + 4.0)) text-anchor="end" { (text) }
        }
    }
}

/// The line that things grow from is stronger than the others.
fn line_class(scale: &Scale, value: f64) -> &'static str {
    match value == 0.0 && scale.is_linear() {
        true => "base",
        false => "grid",
    }
}

/// The numbers to mark and how they are written.
fn marks(scale: &Scale, quantity: Quantity, room: f64) -> Vec<(f64, String)> {
    let most = ((scale.end() - scale.start()).abs() / room).max(2.0) as usize;
    let values = scale.ticks(most);
    if !scale.is_linear() {
        let text = |value: f64| match quantity {
            Quantity::Share if value > 0.0 => format!("{}%", trimmed(value * 100.0)),
            Quantity::Share => "0".to_owned(),
            Quantity::Ratio => format!("{}×", trimmed(value)),
            _ => quantity.lone_tick(value),
        };
        return values.into_iter().map(|value| (value, text(value))).collect();
    }
    let (unit, step) = (quantity.unit(scale.most()), scale.step(most));
    values.into_iter().map(|value| (value, Quantity::tick(value, step, unit))).collect()
}

/// To the thousandth, with no zeroes at the end.
fn trimmed(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(scale: &Scale, quantity: Quantity) -> Vec<String> {
        marks(scale, quantity, MARK_WIDTH).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn a_log_axis_is_marked_at_powers_of_ten_each_in_its_unit() {
        let scale = Scale::log(0.7, 20_000.0, (0.0, 300.0));
        let expected =
            ["1\u{202f}µs", "10\u{202f}µs", "100\u{202f}µs", "1\u{202f}ms", "10\u{202f}ms"];
        assert_eq!(texts(&scale, Quantity::Micros), expected);
    }

    #[test]
    fn a_linear_axis_has_one_unit() {
        let scale = Scale::linear(1_300_000.0, 1e6, (0.0, 240.0));
        assert_eq!(texts(&scale, Quantity::Rate), ["0", "0.5M", "1.0M"]);
    }

    #[test]
    fn shares_are_percentages_with_their_nines() {
        let scale = Scale::nines(0.9999, (0.0, 300.0));
        let expected = ["0", "50%", "90%", "99%", "99.9%", "99.99%"];
        assert_eq!(texts(&scale, Quantity::Share), expected);
    }

    #[test]
    fn every_mark_is_a_line_and_a_text() {
        let scale = Scale::linear(10.0, 1.0, (0.0, 300.0));
        let drawn = below(&scale, Quantity::Ratio, 0.0, 50.0).into_string();
        assert_eq!(drawn.matches("<path").count(), drawn.matches("<text").count());
        assert_eq!(drawn.matches("class=\"base\"").count(), 1);
    }
}
