//! The page for Prometheus: figures of the node, of its namespaces, and of their databases.

use super::namespace::Served;
use esker::stats::{DramTableStats, prometheus};
use esker::{Db, Stats};
use esker_base::Error;
use esker_node::HashFigures;
use esker_replication::{FollowerInfo, Primary};
use esker_target::{Description, NamespaceHealth, Target, Totals};
use std::fmt::Write;

/// The page: text format 0.0.4.
pub fn page(target: &Target, served: &[Served]) -> String {
    let totals = target.totals();
    let mut page = String::new();
    for (name, kind, help, value) in OF_NODES {
        let name = format!("esker_node_{name}");
        let value = value(&totals);
        let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    }
    for (name, kind, help, value) in OF_NAMESPACES {
        add_figure(&mut page, (name, kind, help), served, value);
    }
    for (name, kind, help, value) in OF_DRAM_TABLES {
        let of = |served: &Served| Some(value(&served.db.as_ref()?.dram_table()) as f64);
        add_figure(&mut page, (name, kind, help), served, of);
    }
    add_followers(&mut page, served);
    let databases = (1..).zip(served).filter_map(|(number, served)| {
        Some((number.to_string(), served.db.as_ref()?.watched_stats()))
    });
    let databases: Vec<(String, Stats)> = databases.collect();
    if !databases.is_empty() {
        page += &prometheus::page(databases.iter().map(|(name, stats)| (&name[..], stats)));
    }
    page
}

/// Adds the followers that are connected, and how many writes each is behind.
fn add_followers(page: &mut String, served: &[Served]) {
    let connected = |served: &Served| Some(served.primary.as_ref()?.followers().len() as f64);
    add_figure(page, ("followers", "gauge", "Followers that are connected."), served, connected);
    let mut lines = String::new();
    for (number, served) in (1..).zip(served) {
        let followers = served.primary.as_ref().map(Primary::followers).unwrap_or_default();
        for FollowerInfo { name, behind, .. } in followers {
            let name = name.replace('\\', "\\\\").replace('"', "\\\"");
            let labels = format!("namespace=\"{number}\",kind=\"lsm\",follower=\"{name}\"");
            let _ = writeln!(lines, "{BEHIND}{{{labels}}} {behind}");
        }
    }
    if !lines.is_empty() {
        let help = "Writes that a connected follower has not confirmed.";
        let _ = write!(page, "# HELP {BEHIND} {help}\n# TYPE {BEHIND} gauge\n{lines}");
    }
}

const BEHIND: &str = "esker_node_namespace_follower_behind_writes";

/// Adds a figure of the namespaces that have it, by its name, its kind and its help text.
fn add_figure(
    page: &mut String,
    (name, kind, help): (&str, &str, &str),
    served: &[Served],
    value: impl Fn(&Served) -> Option<f64>,
) {
    let name = format!("esker_node_namespace_{name}");
    let of_each =
        (1..).zip(served).filter_map(|(number, served)| Some((number, served, value(served)?)));
    let mut lines = String::new();
    for (number, served, value) in of_each {
        let labels = format!("namespace=\"{number}\",kind=\"{}\"", served.kind);
        let _ = writeln!(lines, "{name}{{{labels}}} {value}");
    }
    if !lines.is_empty() {
        let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
    }
}

/// A figure of the node: its name, its kind, its help text.
type OfNode = (&'static str, &'static str, &'static str, fn(&Totals) -> u64);

/// They count from its start.
const OF_NODES: [OfNode; 10] = [
    ("commands_total", "counter", "Commands received.", |it| it.commands),
    ("commands_failed_total", "counter", "Commands that failed.", |it| it.failed),
    ("connections_opened_total", "counter", "Connections that were accepted.", |it| {
        it.connections_opened
    }),
    (
        "connections_terminated_total",
        "counter",
        "Connections that the node ended because the host violated the protocol.",
        |it| it.terminated,
    ),
    (
        "connections_stalled_total",
        "counter",
        "Connections that ended by a stalled transfer.",
        |it| it.stalled,
    ),
    (
        "tls_refused_total",
        "counter",
        "TLS connections that failed, usually because the host has no key of this node.",
        |it| it.tls_refused,
    ),
    ("held_bytes", "gauge", "Memory that transfers hold.", |it| it.held_bytes),
    ("connections", "gauge", "Connections that are open.", |it| {
        it.connections_opened.saturating_sub(it.connections_closed)
    }),
    ("received_bytes_total", "counter", "Bytes received from hosts.", |it| it.received_bytes),
    ("sent_bytes_total", "counter", "Bytes sent to hosts.", |it| it.sent_bytes),
];

/// A figure of a namespace, by its name, its kind and its help text, if it has it.
type Figure = (&'static str, &'static str, &'static str, fn(&Served) -> Option<f64>);

/// Those of a hash store count from its opening.
const OF_NAMESPACES: [Figure; 15] = [
    ("failed", "gauge", "1 if something in the namespace has failed: see /health.", |served| {
        Some(if reasons(served).is_empty() { 0.0 } else { 1.0 })
    }),
    ("faults_total", "counter", "Commands that met damaged data or a failed device.", |served| {
        Some(served.namespace.failures()?.faults() as f64)
    }),
    (
        "unreadable_tables",
        "gauge",
        "Tables that compaction skips because a read failed.",
        |served| Some(served.db.as_ref()?.unreadable_tables().len() as f64),
    ),
    ("unreadable_table_bytes", "gauge", "Bytes of these tables.", |served| {
        let tables = served.db.as_ref()?.unreadable_tables();
        Some(tables.iter().map(|table| table.bytes).sum::<u64>() as f64)
    }),
    ("capacity_bytes", "gauge", "Capacity that is announced to hosts.", |served| {
        Some(capacity(served) as f64)
    }),
    ("used_bytes", "gauge", "Bytes of it that are used.", |served| {
        used(served).map(|bytes| bytes as f64)
    }),
    ("keys", "gauge", "Keys of a hash store.", |served| Some(figures(served)?.keys as f64)),
    ("index_bytes", "gauge", "Memory of the index of a hash store.", |served| {
        Some(figures(served)?.index_bytes as f64)
    }),
    ("index_bytes_per_key", "gauge", "Memory of the index for each key.", |served| {
        let figures = figures(served).filter(|figures| figures.keys > 0)?;
        Some(figures.index_bytes as f64 / figures.keys as f64)
    }),
    ("stored_bytes_total", "counter", "Bytes of keys and values that hosts stored.", |served| {
        Some(figures(served)?.stored_bytes as f64)
    }),
    ("device_written_bytes_total", "counter", "Bytes written to the device.", |served| {
        Some(figures(served)?.written_bytes as f64)
    }),
    (
        "device_bytes_per_stored_byte",
        "gauge",
        "Write amplification: bytes written to the device for each stored byte.",
        |served| {
            let figures = figures(served).filter(|figures| figures.stored_bytes > 0)?;
            Some(figures.written_bytes as f64 / figures.stored_bytes as f64)
        },
    ),
    ("recovery_seconds", "gauge", "How long the open of the hash store took.", |served| {
        Some(served.hash.as_ref()?.1.as_secs_f64())
    }),
    ("recovery_read_bytes", "gauge", "Bytes that this open read.", |served| {
        Some(served.hash.as_ref()?.0.opened().read_bytes as f64)
    }),
    ("recovery_replayed_writes", "gauge", "Writes that this open replayed.", |served| {
        Some(served.hash.as_ref()?.0.opened().replayed as f64)
    }),
];

/// A figure of a database's DRAMTable, by its name, its kind and its help text.
type OfDramTable = (&'static str, &'static str, &'static str, fn(&DramTableStats) -> u64);

/// They count from its opening.
const OF_DRAM_TABLES: [OfDramTable; 6] = [
    ("dram_table_bytes", "gauge", "Memory of the DRAMTable.", |table| table.bytes),
    ("dram_table_hits_total", "counter", "Gets that the DRAMTable answered.", |table| {
        table.hits + table.exact_hits
    }),
    ("dram_table_misses_total", "counter", "Gets that it did not answer.", |table| {
        table.misses + table.exact_misses
    }),
    ("dram_table_fills_total", "counter", "Entries that reads put into it.", |table| table.fills),
    ("dram_table_invalidations_total", "counter", "Entries that writes removed.", |table| {
        table.invalidations
    }),
    ("dram_table_evictions_total", "counter", "Entries that were evicted for others.", |table| {
        table.evictions
    }),
];

fn figures(served: &Served) -> Option<HashFigures> {
    served.hash.as_ref().map(|(keys, _)| keys.figures())
}

fn capacity(served: &Served) -> u64 {
    match served.namespace.description() {
        Description::Keys { capacity_bytes, .. } => capacity_bytes,
        Description::Blocks { bytes, .. } => bytes,
    }
}

/// Which blocks are in use is unknown.
fn used(served: &Served) -> Option<u64> {
    match served.namespace.description() {
        Description::Keys { .. } => Some(served.namespace.used_bytes()),
        Description::Blocks { .. } => None,
    }
}

/// What has failed in a namespace, each in a line.
pub fn reasons(served: &Served) -> Vec<String> {
    let mut reasons = served.namespace.failures().map_or_else(Vec::new, NamespaceHealth::reasons);
    // What stands still in the background may have met no command yet.
    match served.db.as_ref().and_then(Db::background_error) {
        Some(error @ Error::TableUnreadable { .. }) => reasons.push(error.to_string()),
        Some(error) => reasons.push(format!("nothing is done in the background: {error}")),
        None => {}
    }
    reasons.iter_mut().for_each(|reason| *reason = reason.replace('\n', " "));
    reasons
}

#[cfg(test)]
pub mod tests {
    use super::super::config::{Config, Kind};
    use super::super::{namespace, start};
    use super::*;
    use esker_nvme::Nqn;
    use esker_target::Access;
    use std::collections::BTreeMap;
    use std::net::SocketAddr;
    use std::path::Path;

    /// A node that serves this.
    pub fn node(kind: Kind) -> (Target, [Served; 1]) {
        let local: SocketAddr = ([127, 0, 0, 1], 0).into();
        let nqn = Nqn::new("nqn.test").unwrap();
        let served = [namespace::open(&kind, &nqn, 1).unwrap()];
        let config = Config {
            listen: local,
            nqn: nqn.as_str().to_owned(),
            reactors: 1,
            hosts: None,
            metrics: None,
            transfer_memory: esker_target::limits::MEMORY_BYTES,
            namespaces: vec![kind],
        };
        let target = start(&config, &nqn, &served, Access::Anyone).unwrap();
        (target, served)
    }

    fn database_node(dir: &Path) -> (Target, [Served; 1]) {
        node(Kind::Lsm {
            path: dir.join("db"),
            create: true,
            capacity: 1 << 30,
            followers: None,
            followers_keep: 1 << 30,
        })
    }

    /// A metric of a page: its kind, and its samples, each with its name, its labels and its value.
    #[derive(Default)]
    struct Parsed<'a> {
        has_help: bool,
        kind: &'a str,
        samples: Vec<(&'a str, &'a str, f64)>,
    }

    /// Reads a page, in which all lines of a metric have to follow its HELP and TYPE.
    fn parse(page: &str) -> BTreeMap<&str, Parsed<'_>> {
        let mut metrics = BTreeMap::<_, Parsed<'_>>::new();
        let mut current = "";
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                let before = metrics.insert(name, Parsed { has_help: true, ..Parsed::default() });
                assert!(before.is_none() && help.ends_with('.'), "{line}");
                current = name;
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                metrics.entry(name).or_default().kind = kind;
                current = name;
            } else {
                let (sample, value) = line.rsplit_once(' ').unwrap();
                let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
                assert!(name.starts_with(current), "{line}");
                let end = &name[current.len()..];
                let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
                metrics.get_mut(current).unwrap().samples.push((end, labels, value));
            }
        }
        metrics
    }

    /// The buckets of a histogram, by its other labels: bounds and counts.
    fn buckets<'a>(parsed: &Parsed<'a>) -> BTreeMap<&'a str, Vec<(f64, f64)>> {
        let mut all = BTreeMap::<_, Vec<_>>::new();
        for (_, labels, value) in parsed.samples.iter().filter(|(end, ..)| *end == "_bucket") {
            let (others, bound) = labels.rsplit_once(",le=\"").unwrap();
            let bound = bound.strip_suffix("\"}").unwrap().replace("+Inf", "inf");
            all.entry(others).or_default().push((bound.parse().unwrap(), *value));
        }
        all
    }

    #[test]
    fn each_metric_of_the_page_has_its_help_and_its_type() {
        let dir = tempfile::tempdir().unwrap();
        let (target, served) = database_node(dir.path());
        let page = page(&target, &served);
        let metrics = parse(&page);
        for (name, parsed) in &metrics {
            assert!(parsed.has_help && !parsed.samples.is_empty(), "{name}");
            let is_known = ["counter", "gauge", "histogram"].contains(&parsed.kind);
            let is_well_named = (parsed.kind == "counter") == name.ends_with("_total");
            assert!(is_known && is_well_named, "{name}: {}", parsed.kind);
            let ends: &[&str] = match parsed.kind {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(parsed.samples.iter().all(|(end, ..)| ends.contains(end)), "{name}");
        }
        assert!(metrics.contains_key("esker_node_commands_total"));
        assert!(metrics.contains_key("esker_node_namespace_failed"));
        assert!(metrics.contains_key("esker_writes_total"));
    }

    #[test]
    fn buckets_of_each_histogram_ascend_and_cumulate() {
        let dir = tempfile::tempdir().unwrap();
        let (target, served) = database_node(dir.path());
        // Calls are timed from the first page on.
        page(&target, &served);
        let db = served[0].db.as_ref().unwrap();
        let keys = db.default_keyspace();
        (0..100_u32).for_each(|n| keys.put(n.to_be_bytes(), [0; 100]).unwrap());
        db.flush().unwrap();
        (0..50_u32).for_each(|n| assert!(keys.get(n.to_be_bytes()).unwrap().is_some()));
        keys.multi_get([[0; 4], [1; 4]]).unwrap();
        let page = page(&target, &served);
        let metrics = parse(&page);
        let histograms = || metrics.iter().filter(|(_, parsed)| parsed.kind == "histogram");
        assert_eq!(histograms().count(), 4);
        for (name, parsed) in histograms() {
            for (labels, buckets) in buckets(parsed) {
                assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name} {labels}");
                let (last, all) = buckets[buckets.len() - 1];
                let whole = format!("{labels}}}");
                let one = |end| {
                    let mut found = parsed.samples.iter().filter(|it| it.0 == end && it.1 == whole);
                    let Some((.., value)) = found.next() else { panic!("{name}{end} {labels}") };
                    *value
                };
                assert_eq!((last, one("_count")), (f64::INFINITY, all), "{name} {labels}");
                assert_eq!(one("_sum") > 0.0, all > 0.0, "{name} {labels}");
            }
        }
        let calls = |call: &str| {
            let labels = format!("database=\"1\",call=\"{call}\"");
            buckets(&metrics["esker_call_seconds"])[&labels[..]].last().unwrap().1
        };
        assert_eq!(["get", "multi_get", "write", "scan"].map(calls), [50.0, 1.0, 100.0, 0.0]);
    }

    #[test]
    fn a_database_tells_what_its_read_table_does() {
        let dir = tempfile::tempdir().unwrap();
        let (target, served) = database_node(dir.path());
        let db = served[0].db.as_ref().unwrap();
        let keys = db.default_keyspace();
        let figure = |name: &str| -> u64 {
            let page = page(&target, &served);
            let name = format!("esker_node_namespace_dram_table_{name}");
            let line = format!("\n{name}{{namespace=\"1\",kind=\"lsm\"}} ");
            page.split_once(&line).unwrap().1.lines().next().unwrap().parse().unwrap()
        };
        let all = || {
            ["hits", "misses", "fills", "invalidations", "evictions"]
                .map(|name| figure(&format!("{name}_total")))
        };
        db.put(&keys, b"key", b"value").unwrap();
        db.flush().unwrap();
        assert_eq!(all(), [0; 5]);
        let get = || db.get(&keys, b"key").unwrap();
        assert!(get().is_some());
        assert_eq!(all(), [0, 1, 1, 0, 0]);
        assert!(get().is_some());
        assert_eq!(all(), [1, 1, 1, 0, 0]);
        db.delete(&keys, b"key").unwrap();
        db.flush().unwrap();
        assert_eq!(all(), [1, 1, 1, 1, 0]);
        assert!(figure("bytes") > 0);
        let page = page(&target, &served);
        assert!(page.contains("\nesker_writes_total{database=\"1\"} 2\n"), "{page}");
        assert!(page.contains("\nesker_flush_seconds_count{database=\"1\"} 2\n"), "{page}");
    }
}
