//! Metrics for Prometheus and a health check, over HTTP on a port of their own. Asked every few seconds by one or two
//! programs: so it is served by the thread that waits for Ctrl-C, one request at a time.

use super::namespace::Served;
use crate::failure::{Failure, Outcome};
use esker_base::Clock;
use esker_target::{Description, Target};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// How long a client may take to ask, and to take its answer; and a reactor to show that it is alive.
const PATIENCE: Duration = Duration::from_secs(1);

/// The longest request that is read. Only its first line matters.
const REQUEST_BYTES: usize = 4096;

pub struct Metrics {
    listener: TcpListener,
}

impl Metrics {
    /// Listens.
    pub fn listen(address: SocketAddr) -> Outcome<Self> {
        let listener = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let failure = |error| Failure::io("listen on", address.to_string(), error);
        Ok(Metrics { listener: listener.map_err(failure)? })
    }

    /// Where, with the port that the system chose.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers one client, if one is there: however many come, in between the caller sees to other things.
    pub fn serve(&self, target: &Target, served: &[Served], clock: &dyn Clock) {
        if let Ok((stream, _)) = self.listener.accept() {
            let deadline = clock.now() + PATIENCE;
            // Whoever does not wait for the answer does without it.
            let _ = answer(Client { stream, clock, deadline }, target, served);
        }
    }
}

/// A client that has until a deadline, however many pieces it asks and reads in.
struct Client<'a> {
    stream: TcpStream,
    clock: &'a dyn Clock,
    deadline: Duration,
}

impl Client<'_> {
    /// The time that is left. A timeout of zero would be none.
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_sub(self.clock.now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Client<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(into)
    }
}

impl Write for Client<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn answer(mut client: Client<'_>, target: &Target, served: &[Served]) -> io::Result<()> {
    client.stream.set_nonblocking(false)?;
    let (mut request, mut length) = ([0; REQUEST_BYTES], 0);
    while !request[..length].windows(4).any(|end| end == b"\r\n\r\n") {
        match client.read(&mut request[length..])? {
            0 => return Ok(()),
            read => length += read,
        }
    }
    let line = request[..length].split(|&byte| byte == b'\r').next().unwrap_or_default();
    let (status, text) = match line.strip_prefix(b"GET ").map(|rest| rest.split(|&b| b == b' ')) {
        Some(mut words) => match words.next() {
            Some(b"/metrics") => ("200 OK", page(target, served)),
            Some(b"/health") if target.is_alive(PATIENCE) => ("200 OK", "ok\n".to_owned()),
            Some(b"/health") => {
                ("503 Service Unavailable", "a reactor does not answer\n".to_owned())
            }
            _ => ("404 Not Found", "there are /metrics and /health\n".to_owned()),
        },
        None => ("405 Method Not Allowed", "GET only\n".to_owned()),
    };
    let length = text.len();
    client.deadline = client.clock.now() + PATIENCE;
    // In one piece, so that it goes out in few.
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    );
    client.write_all(answer.as_bytes())
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
    for (name, value) in
        [("capacity_bytes", capacity as fn(&Served) -> Option<u64>), ("used_bytes", used)]
    {
        let _ = writeln!(page, "# TYPE esker_node_namespace_{name} gauge");
        for (number, served) in (1..).zip(served) {
            let Some(value) = value(served) else { continue };
            let labels = format!("namespace=\"{number}\",kind=\"{}\"", served.kind);
            let _ = writeln!(page, "esker_node_namespace_{name}{{{labels}}} {value}");
        }
    }
    page
}

fn capacity(served: &Served) -> Option<u64> {
    match served.namespace.description() {
        Description::Keys { capacity_bytes, .. } => Some(capacity_bytes),
        Description::Blocks { bytes, .. } => Some(bytes),
    }
}

/// Nobody knows which blocks are in use, and a database does not count the bytes of its keys.
fn used(served: &Served) -> Option<u64> {
    match served.namespace.description() {
        _ if served.kind == "lsm" => None,
        Description::Keys { used_bytes, .. } => Some(used_bytes),
        Description::Blocks { .. } => None,
    }
}
