//! The frame of a plot: a figure with a caption and one drawing of fixed width.
//!
//! Every drawing is [`WIDTH`] units wide, which is a phone's; wide pages put several side by side
//! instead of making them larger. So one unit is about one pixel everywhere, and text stays readable.

use super::number::Quantity;
use super::palette::Palette;
use maud::{Markup, html};

/// The width of every drawing.
pub(super) const WIDTH: f64 = 360.0;

/// A place or a length in a drawing, to a tenth.
///
/// Invariant: what is written is a number, never `NaN` or `inf`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Px(pub(super) f64);

impl std::fmt::Display for Px {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        debug_assert!(self.0.is_finite(), "a place that is no number");
        let tenths = if self.0.is_finite() { (self.0 * 10.0).round() / 10.0 } else { 0.0 };
        // Adding zero turns -0 into 0.
        write!(f, "{}", tenths + 0.0)
    }
}

/// What is said around a plot.
pub(super) struct Caption<'a> {
    /// What is shown.
    pub(super) title: &'a str,
    /// In which unit, and which direction is better.
    pub(super) hint: &'a str,
    /// The same for those who can't see it: `title` and what it is broken down by.
    pub(super) label: String,
}

/// A figure around `drawing`.
pub(super) fn figure(caption: &Caption<'_>, height: f64, drawing: Markup) -> Markup {
    html! {
        figure.plot {
            figcaption {
                strong { (caption.title) }
                @if !caption.hint.is_empty() { " " span { (caption.hint) } }
            }
            svg viewBox={ "0 0 " (Px(WIDTH)) " " (Px(height)) } role="img"
                aria-label=(caption.label) {
                title { (caption.label) }
                (drawing)
            }
        }
    }
}

/// Which colour is which engine.
pub(super) fn legend(engines: &[&str], palette: &Palette) -> Markup {
    html! {
        @if !engines.is_empty() {
            ul.legend {
                @for engine in engines {
                    li.{ (palette.class(engine)) } {
                        svg viewBox="0 0 30 12" aria-hidden="true" {
                            rect.bar x="0" y="1" width="10" height="10" rx="1.5" {}
                            path.line d="M13 6H30" {}
                        }
                        (engine)
                    }
                }
            }
        }
    }
}

/// What a metric is called, and what it counts.
pub(super) fn metric_title(metric: &str, unit: &str) -> (String, Quantity) {
    let quantity = Quantity::of(metric, unit);
    let known = match metric {
        "throughput" => "Throughput",
        "sustained_throughput" => "Throughput, settling included",
        "settle_seconds" => "Time to settle",
        "dram_hit_ratio" => "Reads answered from DRAM",
        "pmem_writes" => "Writes that went to persistent memory",
        "dram_fills" => "Copies made in DRAM",
        "dram_invalidations" => "Copies outdated by writes",
        "dram_evictions" => "Copies that had to make room",
        "cache_hit_ratio" => "Blocks found in the block cache",
        "table_reads_per_hit" => "Tables read by a get that finds its key",
        "table_reads_per_miss" => "Tables read by a get that does not",
        "write_amp" => "Write amplification",
        "resident_peak_mib" => "Resident memory, peak",
        "resident_end_mib" => "Resident memory at the end",
        "descriptors_peak" => "Open descriptors, most",
        "read_calls_per_get" => "Reads from the system by a get",
        "read_calls_per_scan" => "Reads from the system by a scan",
        "device_bytes_read_per_get" => "Bytes read from devices by a get",
        "device_bytes_read_per_scan" => "Bytes read from devices by a scan",
        "space_amp_end" => "Space amplification at the end",
        "open_ms" => "Time to open",
        "first_read_ms" => "Time to open and read once",
        "write_amp_so_far" => "Write amplification, until the last operation",
        "space_amp_peak" => "Space amplification, peak",
        "table_write_amp" => "Write amplification of tables",
        "table_space_amp_mean" => "Space amplification of tables, mean",
        "table_space_amp_settled" => "Space amplification of tables, settled",
        "table_space_amp_peak" => "Space amplification of tables, peak",
        "segments_above_goal" => "Segments above the goal, of four",
        "limit_line_distance" => "Writes beside the limit line",
        "predicted_reclaim_error" => "Reclaimed bytes, error of prediction",
        "reclaims_within_tenth" => "Compactions predicted to a tenth",
        "table_runs_per_get" => "Runs visited by a get that comes to tables",
        "table_blocks_read_per_get" => "Blocks read from files by such a get",
        "table_bytes_read_per_get" => "Bytes read from files by such a get",
        "read_settled_table_runs_per_get" => "Runs visited by a read, settled",
        "read_unsettled_table_runs_per_get" => "Runs visited by a read, unsettled",
        "read_settled_table_reads_per_hit" => "Tables read by a read, settled",
        "read_unsettled_table_reads_per_hit" => "Tables read by a read, unsettled",
        "read_settled_table_blocks_read_per_get" => "Blocks read from files by a read, settled",
        "read_unsettled_table_blocks_read_per_get" => "Blocks read from files by a read, unsettled",
        "read_settled_table_bytes_read_per_get" => "Bytes read from files by a read, settled",
        "read_unsettled_table_bytes_read_per_get" => "Bytes read from files by a read, unsettled",
        "read_settled_throughput" => "Reads, settled",
        "read_beside_updates_throughput" => "Reads beside updates",
        "read_unsettled_throughput" => "Reads, unsettled",
        "read_settled_latency_p99_us" => "Latency of reads, settled, 99th percentile",
        "read_beside_updates_latency_p99_us" => "Latency of reads beside updates, 99th percentile",
        "read_unsettled_latency_p99_us" => "Latency of reads, unsettled, 99th percentile",
        "latency_mean_us" => "Latency, mean",
        "latency_p50_us" => "Latency, median",
        "latency_p99_us" => "Latency, 99th percentile",
        "latency_p999_us" => "Latency, 99.9th percentile",
        "latency_max_us" => "Latency, longest",
        "stall_us" | "stall_ms" => "Writers held back",
        "disk_bytes" => "Space taken",
        "fill_us" => "A put, in random order",
        "get_first_us" => "A get soon after the load",
        "get_us" => "A get, everything read before",
        "seek_50_us" => "A seek and 50 pairs, a new cursor",
        "seek_50_kept_us" => "A seek and 50 pairs, the cursor kept",
        "seek_50_range_us" => "A seek and 50 pairs, by range",
        "scan_us" => "A pair of a full scan, by cursor",
        "scan_range_us" => "A pair of a full scan, by range",
        "rss_peak_mib" => "Memory, peak, without mapped files",
        "mapped_peak_mib" => "Mapped files, peak",
        "pop_first_us" => "A pop, of the first thousand",
        "pop_last_us" => "A pop, of the last thousand",
        "hot_scan_us" => "A scan of the hot key",
        "hot_scan_first_us" => "The first scan of the hot key",
        "bandwidth_mib_s" => "Bandwidth, MiB/s",
        _ => "",
    };
    if !known.is_empty() {
        return (known.to_owned(), quantity);
    }
    let words = metric
        .trim_end_matches("_us")
        .trim_end_matches("_ms")
        .trim_end_matches("_bytes")
        .replace('_', " ");
    let mut letters = words.chars();
    let title =
        letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect());
    (title, quantity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_to_a_tenth() {
        let shown = [1.0, 2.34, -0.01, 1e6].map(|place| Px(place).to_string());
        assert_eq!(shown, ["1", "2.3", "0", "1000000"]);
    }

    #[test]
    fn an_unknown_metric_is_named_by_its_words() {
        assert_eq!(metric_title("queue_depth", "").0, "Queue depth");
        assert_eq!(metric_title("read_wait_us", "us"), ("Read wait".into(), Quantity::Micros));
        assert_eq!(metric_title("", "").0, "");
    }
}
