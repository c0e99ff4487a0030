//! Metrics for Prometheus and a health check, over HTTP on a port of their own. Asked every few seconds by one or two
//! programs: so it is served by the thread that waits for Ctrl-C, which looks after its clients in between and waits for none of them.

use super::namespace::Served;
use crate::failure::{Failure, Outcome};
use esker::stats::{DramTableStats, prometheus};
use esker::{Db, Stats};
use esker_base::{Clock, Error};
use esker_node::HashFigures;
use esker_replication::{FollowerInfo, Primary};
use esker_target::{Description, NamespaceHealth, Target};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// How long a client may take to ask; and a reactor to show that it is alive.
const PATIENCE: Duration = Duration::from_secs(1);

/// The longest request that is read. Only its first line matters.
const REQUEST_BYTES: usize = 4096;

/// Clients that are served at once; more wait to be accepted.
const CLIENTS: usize = 64;

pub struct Metrics {
    listener: TcpListener,
    /// Those that have not said all yet.
    clients: Vec<Client>,
}

impl Metrics {
    /// Listens.
    pub fn listen(address: SocketAddr) -> Outcome<Self> {
        let listener = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let failure = |error| Failure::io("listen on", address.to_string(), error);
        Ok(Metrics { listener: listener.map_err(failure)?, clients: Vec::new() })
    }

    /// Where, with the port that the system chose.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers the clients that have asked by now. A silent client delays no other.
    pub fn serve(&mut self, target: &Target, served: &[Served], clock: &dyn Clock) {
        while self.clients.len() < CLIENTS
            && let Ok((stream, _)) = self.listener.accept()
        {
            if stream.set_nonblocking(true).is_ok() {
                let deadline = clock.now() + PATIENCE;
                self.clients.push(Client { stream, request: Vec::new(), deadline });
            }
        }
        let now = clock.now();
        let (mut waiting, mut alive) = (Vec::new(), None);
        for mut client in std::mem::take(&mut self.clients) {
            match client.hear() {
                Heard::All => {
                    // Asked once: with a reactor that hangs, it takes a while.
                    let is_alive = || *alive.get_or_insert_with(|| target.is_alive(PATIENCE));
                    client.answer(target, served, is_alive);
                }
                Heard::Part if now < client.deadline => waiting.push(client),
                // It has gone, has said too much, or took too long.
                Heard::Part | Heard::Nonsense => {}
            }
        }
        self.clients = waiting;
    }
}

/// A client that has until a deadline, however many pieces it asks in.
struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    deadline: Duration,
}

/// What of its request a client has sent.
enum Heard {
    All,
    Part,
    Nonsense,
}

impl Client {
    /// Takes what has come.
    fn hear(&mut self) -> Heard {
        let mut piece = [0; REQUEST_BYTES];
        loop {
            if self.request.windows(4).any(|end| end == b"\r\n\r\n") {
                return Heard::All;
            }
            match self.stream.read(&mut piece) {
                Ok(read) if read > 0 && self.request.len() + read <= REQUEST_BYTES => {
                    self.request.extend_from_slice(&piece[..read]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Heard::Part,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return Heard::Nonsense,
            }
        }
    }

    /// Answers. What the socket has no space for is lost: it has space for a page.
    fn answer(mut self, target: &Target, served: &[Served], is_alive: impl FnOnce() -> bool) {
        let line = self.request.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let (status, text) = answer(line, target, served, is_alive);
        let length = text.len();
        // In one piece, so that it goes out in few.
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
        );
        let _ = self.stream.write_all(answer.as_bytes());
    }
}

/// The answer to a request by its first line.
fn answer(
    line: &[u8],
    target: &Target,
    served: &[Served],
    is_alive: impl FnOnce() -> bool,
) -> (&'static str, String) {
    let Some(rest) = line.strip_prefix(b"GET ") else {
        return ("405 Method Not Allowed", "GET only\n".to_owned());
    };
    match rest.split(|&byte| byte == b' ').next() {
        Some(b"/metrics") => ("200 OK", page(target, served)),
        Some(b"/health") => health(served, is_alive()),
        _ => ("404 Not Found", "there are /metrics and /health\n".to_owned()),
    }
}

/// Whether all is well; if not, what is not, a line each.
fn health(served: &[Served], is_alive: bool) -> (&'static str, String) {
    let mut text = String::new();
    if !is_alive {
        text.push_str("a reactor does not answer\n");
    }
    for (number, served) in (1..).zip(served) {
        for reason in reasons(served) {
            let _ = writeln!(text, "namespace {number} ({}): {reason}", served.kind);
        }
    }
    match text.is_empty() {
        true => ("200 OK", "ok\n".to_owned()),
        false => ("503 Service Unavailable", text),
    }
}

/// What has failed in a namespace, each in a line.
fn reasons(served: &Served) -> Vec<String> {
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

/// The page: text format 0.0.4.
fn page(target: &Target, served: &[Served]) -> String {
    let totals = target.totals();
    let mut page = String::new();
    for (name, kind, value) in [
        ("commands_total", "counter", totals.commands),
        ("commands_failed_total", "counter", totals.failed),
        ("connections_opened_total", "counter", totals.connections_opened),
        ("connections_terminated_total", "counter", totals.terminated),
        ("connections_stalled_total", "counter", totals.stalled),
        ("tls_refused_total", "counter", totals.tls_refused),
        ("held_bytes", "gauge", totals.held_bytes),
        (
            "connections",
            "gauge",
            totals.connections_opened.saturating_sub(totals.connections_closed),
        ),
        ("received_bytes_total", "counter", totals.received_bytes),
        ("sent_bytes_total", "counter", totals.sent_bytes),
    ] {
        let _ = writeln!(page, "# TYPE esker_node_{name} {kind}\nesker_node_{name} {value}");
    }
    for (name, kind, value) in OF_NAMESPACES {
        add_figure(&mut page, (name, kind), served, value);
    }
    for (name, kind, value) in OF_DRAM_TABLES {
        let of = |served: &Served| Some(value(&served.db.as_ref()?.dram_table()) as f64);
        add_figure(&mut page, (name, kind), served, of);
    }
    add_followers(&mut page, served);
    let databases = (1..)
        .zip(served)
        .filter_map(|(number, served)| Some((number.to_string(), served.db.as_ref()?.stats())));
    let databases: Vec<(String, Stats)> = databases.collect();
    if !databases.is_empty() {
        page += &prometheus::page(databases.iter().map(|(name, stats)| (&name[..], stats)));
    }
    page
}

/// Adds the followers that are connected, and how many writes each is behind.
fn add_followers(page: &mut String, served: &[Served]) {
    let connected = |served: &Served| Some(served.primary.as_ref()?.followers().len() as f64);
    add_figure(page, ("followers", "gauge"), served, connected);
    let mut lines = String::new();
    for (number, served) in (1..).zip(served) {
        let followers = served.primary.as_ref().map(Primary::followers).unwrap_or_default();
        for FollowerInfo { name, behind, .. } in followers {
            let name = name.replace('\\', "\\\\").replace('"', "\\\"");
            let labels = format!("namespace=\"{number}\",kind=\"lsm\",follower=\"{name}\"");
            let _ =
                writeln!(lines, "esker_node_namespace_follower_behind_writes{{{labels}}} {behind}");
        }
    }
    if !lines.is_empty() {
        let _ = write!(page, "# TYPE esker_node_namespace_follower_behind_writes gauge\n{lines}");
    }
}

/// Adds a figure of the namespaces that have it, by its name and its kind.
fn add_figure(
    page: &mut String,
    (name, kind): (&str, &str),
    served: &[Served],
    value: impl Fn(&Served) -> Option<f64>,
) {
    let of_each =
        (1..).zip(served).filter_map(|(number, served)| Some((number, served, value(served)?)));
    let mut lines = String::new();
    for (number, served, value) in of_each {
        let labels = format!("namespace=\"{number}\",kind=\"{}\"", served.kind);
        let _ = writeln!(lines, "esker_node_namespace_{name}{{{labels}}} {value}");
    }
    if !lines.is_empty() {
        let _ = write!(page, "# TYPE esker_node_namespace_{name} {kind}\n{lines}");
    }
}

/// A figure of a namespace, by its name and its kind, if it has it.
type Figure = (&'static str, &'static str, fn(&Served) -> Option<f64>);

/// Those of a hash store count from its opening.
const OF_NAMESPACES: [Figure; 15] = [
    ("failed", "gauge", |served| Some(if reasons(served).is_empty() { 0.0 } else { 1.0 })),
    ("faults_total", "counter", |served| Some(served.namespace.failures()?.faults() as f64)),
    ("unreadable_tables", "gauge", |served| {
        Some(served.db.as_ref()?.unreadable_tables().len() as f64)
    }),
    ("unreadable_table_bytes", "gauge", |served| {
        let tables = served.db.as_ref()?.unreadable_tables();
        Some(tables.iter().map(|table| table.bytes).sum::<u64>() as f64)
    }),
    ("capacity_bytes", "gauge", |served| Some(capacity(served) as f64)),
    ("used_bytes", "gauge", |served| used(served).map(|bytes| bytes as f64)),
    ("keys", "gauge", |served| Some(figures(served)?.keys as f64)),
    ("index_bytes", "gauge", |served| Some(figures(served)?.index_bytes as f64)),
    ("index_bytes_per_key", "gauge", |served| {
        let figures = figures(served).filter(|figures| figures.keys > 0)?;
        Some(figures.index_bytes as f64 / figures.keys as f64)
    }),
    ("stored_bytes_total", "counter", |served| Some(figures(served)?.stored_bytes as f64)),
    ("device_written_bytes_total", "counter", |served| Some(figures(served)?.written_bytes as f64)),
    ("device_bytes_per_stored_byte", "gauge", |served| {
        let figures = figures(served).filter(|figures| figures.stored_bytes > 0)?;
        Some(figures.written_bytes as f64 / figures.stored_bytes as f64)
    }),
    ("recovery_seconds", "gauge", |served| Some(served.hash.as_ref()?.1.as_secs_f64())),
    ("recovery_read_bytes", "gauge", |served| {
        Some(served.hash.as_ref()?.0.opened().read_bytes as f64)
    }),
    ("recovery_replayed_writes", "gauge", |served| {
        Some(served.hash.as_ref()?.0.opened().replayed as f64)
    }),
];

/// A figure of a database's DRAMTable, by its name and its kind.
type OfDramTable = (&'static str, &'static str, fn(&DramTableStats) -> u64);

/// They count from its opening.
const OF_DRAM_TABLES: [OfDramTable; 6] = [
    ("dram_table_bytes", "gauge", |table| table.bytes),
    ("dram_table_hits_total", "counter", |table| table.hits + table.exact_hits),
    ("dram_table_misses_total", "counter", |table| table.misses + table.exact_misses),
    ("dram_table_fills_total", "counter", |table| table.fills),
    ("dram_table_invalidations_total", "counter", |table| table.invalidations),
    ("dram_table_evictions_total", "counter", |table| table.evictions),
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

#[cfg(test)]
mod tests {
    use super::super::config::{Config, Kind};
    use super::super::{namespace, start};
    use super::*;
    use esker_nvme::Nqn;
    use esker_target::Access;

    /// It is: nobody's patience ends.
    struct Standing;

    impl Clock for Standing {
        fn now(&self) -> Duration {
            Duration::ZERO
        }

        fn sleep(&self, _time: Duration) {}
    }

    /// A node that serves this, and where it reports itself.
    fn node(kind: Kind) -> (Target, [Served; 1], Metrics) {
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
        (target, served, Metrics::listen(local).unwrap())
    }

    #[test]
    fn what_failed_in_a_namespace_is_on_both_pages() {
        let dir = tempfile::tempdir().unwrap();
        let (target, served, _metrics) = node(Kind::Block {
            path: dir.path().join("blocks"),
            bytes: Some(1 << 20),
            block_bytes: 4096,
            volatile_cache: false,
        });
        let ask = |page: &str| {
            answer(format!("GET {page} HTTP/1.1").as_bytes(), &target, &served, || true)
        };
        let gauge = |value| {
            let name = "esker_node_namespace_failed";
            format!("\n{name}{{namespace=\"1\",kind=\"block\"}} {value}\n")
        };
        assert_eq!(ask("/health"), ("200 OK", "ok\n".to_owned()));
        assert!(ask("/metrics").1.contains(&gauge(0)));
        let failures = served[0].namespace.failures().expect("it can fail");
        failures.stop(|| "a sync of the device failed:\na bad cable".to_owned());
        failures.fault(|| "a bad sector".to_owned());
        let (status, text) = ask("/health");
        assert_eq!(status, "503 Service Unavailable");
        let [stop, fault] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert!(stop.starts_with("namespace 1 (block): ") && stop.ends_with(": a bad cable"));
        assert!(fault.starts_with("namespace 1 (block): ") && fault.ends_with("a bad sector"));
        let page = ask("/metrics").1;
        assert!(page.contains(&gauge(1)));
        assert!(page.contains("_faults_total{namespace=\"1\",kind=\"block\"} 1\n"));
    }

    #[test]
    fn a_database_tells_what_its_read_table_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let (target, served, _metrics) = node(Kind::Lsm {
            path,
            create: true,
            capacity: 1 << 30,
            followers: None,
            followers_keep: 1 << 30,
        });
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

    #[test]
    fn clients_that_say_nothing_keep_nobody_from_the_health_page() {
        let (target, served, mut metrics) = node(Kind::Ram { bytes: 1 << 20 });
        let connect = || TcpStream::connect(metrics.address().unwrap()).unwrap();
        let mut silent: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
        silent[0].write_all(b"GET /hea").unwrap();
        let mut asking = connect();
        asking.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
        asking.set_nonblocking(true).unwrap();
        let (mut answer, mut piece) = (Vec::new(), [0; 1000]);
        loop {
            metrics.serve(&target, &served, &Standing);
            match asking.read(&mut piece) {
                Ok(0) => break,
                Ok(length) => answer.extend_from_slice(&piece[..length]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert!(answer.ends_with(b"\r\n\r\nok\n"));
        assert_eq!(metrics.clients.len(), 20, "they are waited for meanwhile");
    }
}
