//! The page: its heading, and its parts in their order.

use super::data::Data;
use super::number::Quantity;
use super::palette::Palette;
use super::sections::Page;
use super::table;
use crate::results::Results;
use maud::{DOCTYPE, Markup, PreEscaped, html};

pub(super) const STYLE: &str = include_str!("style.css");

/// The page of `results`, its engines compared with `baseline`.
pub(super) fn render(results: &Results, baseline: &str) -> Markup {
    let sound = results.sound();
    let data = Data::new(&sound);
    let palette = Palette::new(&data.engines);
    let page = Page { data, palette, baseline };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title(results)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (heading(results))
                main {
                    @if results.groups.is_empty() || page.data.cases.is_empty() {
                        (summary(&page))
                        (page.speed())
                        (page.latency())
                        (page.cost())
                    } @else {
                        (page.published())
                        (page.groups())
                    }
                    (page.cases())
                    (setup(&page))
                }
            }
        }
    }
}

fn title(results: &Results) -> String {
    match &results.experiment[..] {
        "" => "Results".to_owned(),
        experiment => experiment.to_owned(),
    }
}

fn heading(results: &Results) -> Markup {
    let machine = &results.machine;
    let cores = match machine.cores {
        0 => String::new(),
        1 => "1 core".to_owned(),
        cores => format!("{cores} cores"),
    };
    let memory = match machine.memory_bytes {
        0 => String::new(),
        bytes => format!("{} memory", Quantity::Bytes.short(bytes as f64)),
    };
    let disk = [&machine.filesystem[..], &machine.disk].into_iter();
    let disk = disk.filter(|fact| !fact.is_empty()).collect::<Vec<_>>().join(" on ");
    let date = date(&results.started);
    let version = match (&results.version[..], &results.commit[..]) {
        ("", _) => String::new(),
        (version, commit) => format!("esker {version}, commit {commit}"),
    };
    let facts = [&results.scale, &version, &date, &machine.cpu, &cores, &memory, &disk];
    html! {
        header {
            h1 { (title(results)) }
            p.facts {
                @for fact in facts.into_iter().filter(|fact| !fact.is_empty()) {
                    span { (fact) } " "
                }
            }
            @if !results.emulated.is_empty() {
                p.notice {
                    strong { "Emulated: " }
                    (results.emulated.join("; "))
                }
            }
            @if !results.complete {
                p.notice.partial {
                    strong { "Partial: " }
                    @if results.ended.is_empty() {
                        "the run goes on, or was ended from outside. What has been measured so far is shown."
                    } @else {
                        "the run ended early: " (results.ended) ". What had been measured by then is shown."
                    }
                }
            }
            @if !results.command.is_empty() { pre tabindex="0" { code { (command(&results.command)) } } }
        }
    }
}

/// `2026-11-21T05:00:59Z` as `21 November 2026, 05:00 UTC`; what looks otherwise stays as it is.
fn date(started: &str) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let parsed = || {
        let (day, time) = started.split_once('T')?;
        let [year, month, day] = day.split('-').collect::<Vec<_>>().try_into().ok()?;
        let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
        let day: u32 = day.parse().ok()?;
        let minutes = time.ends_with('Z').then(|| time.get(..5)).flatten()?;
        Some(format!("{day} {month} {year}, {minutes} UTC"))
    };
    parsed().unwrap_or_else(|| started.to_owned())
}

/// The command line as a shell takes it. Of merged runs each has a line.
fn command(words: &[String]) -> String {
    let lines = words.split(|word| word == ";");
    let lines =
        lines.map(|line| line.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=./,:+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn summary(page: &Page<'_>) -> Markup {
    let (engines, baseline) = (&page.data.engines[..], page.baseline);
    let compared =
        table::Compared { engines, baseline, cases: &page.data.cases, metric: "throughput" };
    let Some(table) = table::summary(&page.data, &compared, &page.palette) else {
        return html! { p.note { "Nothing has been measured." } };
    };
    let rounds = page.data.most_rounds();
    html! {
        section {
            h2 { "Summary" }
            p.note {
                "Operations a second"
                @if rounds > 1 { ", the median of " (rounds) " rounds (least–most)" }
                "."
                @if page.data.engines.len() > 1 {
                    " Below each: how many times that of " b { (page.baseline) }
                    @if rounds > 1 {
                        ", round by round; in " span.same { "grey" }
                        " where the rounds do not agree on which of the two is faster"
                    }
                    "."
                }
            }
            (table)
        }
    }
}

fn setup(page: &Page<'_>) -> Markup {
    html! {
        section {
            h2 { "Setup" }
            div.setup {
                (table::machine(&page.data))
                @if let Some(settings) = table::settings(&page.data, &page.palette) { (settings) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_spelled_out() {
        assert_eq!(date("2026-11-01T05:07:59Z"), "1 November 2026, 05:07 UTC");
        assert_eq!(date("2026-13-01T05:07:59Z"), "2026-13-01T05:07:59Z");
        assert_eq!(date("2026-11-01T05:07:59+01:00"), "2026-11-01T05:07:59+01:00");
        assert_eq!(date("2026-11-01Té"), "2026-11-01Té");
        assert_eq!(date(""), "");
    }

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        let words = ["esker", "bench", "a b", "it's", "", ";", "esker"].map(str::to_owned);
        assert_eq!(command(&words), "esker bench 'a b' 'it'\\''s' ''\nesker");
    }
}
