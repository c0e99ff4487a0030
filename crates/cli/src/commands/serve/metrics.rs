//! Metrics for Prometheus and a health check, over HTTP on a port of their own. Asked every few seconds by one or two
//! programs: so it is served by the thread that waits for Ctrl-C, which looks after its clients in between and waits for none of them.

use super::namespace::Served;
use super::page::{page, reasons};
use crate::failure::{Failure, Outcome};
use esker_base::Clock;
use esker_target::Target;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// How long a client may take to ask and to take its answer; and a reactor to show that it is alive.
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
                let (request, answer) = (Vec::new(), None);
                self.clients.push(Client { stream, request, answer, deadline });
            }
        }
        let now = clock.now();
        let (mut waiting, mut alive) = (Vec::new(), None);
        for mut client in std::mem::take(&mut self.clients) {
            let mut answer = |request: &[u8]| {
                // Asked once: with a reactor that hangs, it takes a while.
                let is_alive = || *alive.get_or_insert_with(|| target.is_alive(PATIENCE));
                answer(request, target, served, is_alive)
            };
            if client.go_on(&mut answer) && now < client.deadline {
                waiting.push(client);
            }
        }
        self.clients = waiting;
    }
}

/// A client that has until a deadline, however many pieces it asks in, and takes its answer in.
struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    /// The answer and how much of it is sent, once the request is whole.
    answer: Option<(Vec<u8>, usize)>,
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

    /// Reads, then writes. Returns false once it is over: also if it has gone, or has said too much.
    fn go_on(&mut self, answer: impl FnOnce(&[u8]) -> (&'static str, String)) -> bool {
        if self.answer.is_none() {
            match self.hear() {
                Heard::Part => return true,
                Heard::Nonsense => return false,
                Heard::All => {}
            }
            let line = self.request.split(|&byte| byte == b'\r').next().unwrap_or_default();
            let (status, text) = answer(line);
            let length = text.len();
            // In one piece, so that it goes out in few.
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
            );
            self.answer = Some((answer.into(), 0));
        }
        // The page of many databases is longer than what a socket has space for.
        let (answer, sent) = self.answer.get_or_insert_default();
        while *sent < answer.len() {
            match self.stream.write(&answer[*sent..]) {
                Ok(more) => *sent += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        false
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

#[cfg(test)]
mod tests {
    use super::super::config::Kind;
    use super::super::page::tests::node;
    use super::*;

    /// It is: nobody's patience ends.
    struct Standing;

    impl Clock for Standing {
        fn now(&self) -> Duration {
            Duration::ZERO
        }

        fn sleep(&self, _time: Duration) {}
    }

    #[test]
    fn what_failed_in_a_namespace_is_on_both_pages() {
        let dir = tempfile::tempdir().unwrap();
        let (target, served) = node(Kind::Block {
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
    fn a_client_gets_the_whole_of_an_answer_that_no_socket_has_space_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut asking = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let (request, answer, deadline) = (b"GET / \r\n\r\n".to_vec(), None, Duration::ZERO);
        let mut client = Client { stream, request, answer, deadline };
        let text = "x".repeat(32 << 20);
        assert!(client.go_on(|_| ("200 OK", text.clone())), "it is not sent at once");
        let all = std::thread::scope(|threads| {
            let reading = threads.spawn(move || {
                let mut all = Vec::new();
                asking.read_to_end(&mut all).unwrap();
                all
            });
            while client.go_on(|_| panic!("it is answered")) {}
            drop(client);
            reading.join().unwrap()
        });
        assert!(all.ends_with(text.as_bytes()), "{} bytes", all.len());
    }

    #[test]
    fn clients_that_say_nothing_keep_nobody_from_the_health_page() {
        let (target, served) = node(Kind::Ram { bytes: 1 << 20 });
        let mut metrics = Metrics::listen(([127, 0, 0, 1], 0).into()).unwrap();
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
