//! The few answers in HTTP that a page needs, without waiting for any client.
//!
//! A page of another site must not read this one through the browser. A site can make its own name
//! resolve to this machine (DNS rebinding). Such a request has that name in `Host`, and is rejected. So
//! `Host` must be an IP address, which no site can make its own, or a name of this machine. No answer
//! allows other origins.

use crate::failure::{Failure, Outcome};
use crate::machine::host_name;
use esker::env::Clock;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// How long a client may take to ask and to take its answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest request. A browser sends the cookies that the programs of all ports of `localhost` set.
const REQUEST_BYTES: usize = 64 << 10;
/// Clients at once; more wait to be accepted.
const CLIENTS: usize = 32;

const TEXT: &str = "text/plain; charset=utf-8";

pub struct Server {
    listener: TcpListener,
    place: Place,
    clients: Vec<Client>,
}

/// Where clients find it.
struct Place {
    address: SocketAddr,
    /// The system's name.
    host_name: String,
}

/// The latest sample that a page has.
pub struct Seen<'a> {
    /// The run of the program that it is from; empty if the page has none.
    pub run: &'a str,
    /// Its number.
    pub after: u64,
}

struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    /// The answer and how much of it is sent, once the request is whole.
    answer: Option<(Vec<u8>, usize)>,
    /// The answer came before the end of the request. A close that leaves bytes unread would discard it.
    must_drain: bool,
    deadline: Duration,
}

/// How far a request was read.
enum Progress {
    Waits,
    Whole,
    TooLong,
    Ended,
}

impl Server {
    pub fn listen(address: SocketAddr) -> Outcome<Server> {
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let place = Place { address: listener.local_addr()?, host_name: host_name() };
            Ok(Server { listener, place, clients: Vec::new() })
        };
        listen().map_err(|error| Failure::io("listen on", address.to_string(), error))
    }

    /// Where, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.place.address
    }

    /// Serves all clients without blocking. `data` is the answer to a page that has some samples.
    pub fn serve(&mut self, clock: &dyn Clock, page: &str, data: impl Fn(Seen<'_>) -> String) {
        while self.clients.len() < CLIENTS
            && let Ok((stream, _)) = self.listener.accept()
        {
            if stream.set_nonblocking(true).is_ok() {
                let deadline = clock.now() + PATIENCE;
                let (request, answer, must_drain) = (Vec::new(), None, false);
                self.clients.push(Client { stream, request, answer, must_drain, deadline });
            }
        }
        let (now, place) = (clock.now(), &self.place);
        self.clients.retain_mut(|client| {
            client.go_on(|request| answer(request, place, page, &data)) && now < client.deadline
        });
    }
}

impl Client {
    /// Reads, then writes. Returns false once it is over.
    fn go_on(&mut self, answer: impl FnOnce(&str) -> Vec<u8>) -> bool {
        if self.answer.is_none() {
            let answer = match self.read() {
                Progress::Waits => return true,
                Progress::Ended => return false,
                Progress::Whole => answer(&String::from_utf8_lossy(&self.request)),
                Progress::TooLong => {
                    self.must_drain = true;
                    let status = "431 Request Header Fields Too Large";
                    response(status, TEXT, "the request is longer than 64 KiB\n")
                }
            };
            self.answer = Some((answer, 0));
        }
        let Some((bytes, sent)) = &mut self.answer else { return true };
        while *sent < bytes.len() {
            match self.stream.write(&bytes[*sent..]) {
                Ok(written) => *sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        let _ = self.stream.shutdown(Shutdown::Write);
        self.must_drain && self.drain()
    }

    /// Reads until the request is whole. A client may end its side after it.
    fn read(&mut self) -> Progress {
        let mut piece = [0; 1024];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return Progress::Ended,
                Ok(read) => {
                    // The end may have begun in the last piece.
                    let from = self.request.len().saturating_sub(3);
                    self.request.extend_from_slice(&piece[..read]);
                    if self.request[from..].windows(4).any(|end| end == b"\r\n\r\n") {
                        return Progress::Whole;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Progress::Waits,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Progress::Ended,
            }
            if self.request.len() > REQUEST_BYTES {
                return Progress::TooLong;
            }
        }
    }

    /// Discards what still comes. Returns false once nothing does. Reads no more than some, so that no
    /// client keeps the others waiting.
    fn drain(&mut self) -> bool {
        let mut piece = [0; 1024];
        for _ in 0..REQUEST_BYTES / piece.len() {
            match self.stream.read(&mut piece) {
                Ok(0) => return false,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
                Ok(_) => {}
            }
        }
        true
    }
}

/// The answer to a request.
fn answer(request: &str, place: &Place, page: &str, data: impl Fn(Seen<'_>) -> String) -> Vec<u8> {
    let mut lines = request.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let host = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    if !host.is_some_and(|host| is_own(host, place)) {
        return response("403 Forbidden", TEXT, "the host is not this machine\n");
    }
    if method != "GET" {
        return response("405 Method Not Allowed", TEXT, "GET only\n");
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match path {
        "/" => response("200 OK", "text/html; charset=utf-8", page),
        "/data" => {
            let value = |name| {
                let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
                pairs.find(|pair| pair.0 == name).map(|pair| pair.1)
            };
            let after = value("after").and_then(|number| number.parse().ok()).unwrap_or(0);
            let seen = Seen { run: value("run").unwrap_or_default(), after };
            response("200 OK", "application/json", &data(seen))
        }
        _ => response("404 Not Found", TEXT, "there are / and /data\n"),
    }
}

/// Whether a client that names this host means this program. Other names of this machine than the
/// system's own are not known.
fn is_own(host: &str, place: &Place) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        // The colon may be within an address.
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host, "80"),
    };
    let is_name = |own: &str| name.eq_ignore_ascii_case(own) && !own.is_empty();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_address = match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4()),
    };
    let is_known = is_address || is_name("localhost") || is_name(&place.host_name);
    is_known && port == place.address.port().to_string()
}

fn response(status: &str, kind: &str, body: &str) -> Vec<u8> {
    // The page is one file: nothing else may be loaded, by whatever a key says.
    let policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                  connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'";
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Content-Security-Policy: {policy}\r\nX-Content-Type-Options: nosniff\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn ask_at(address: &str, request: &str) -> String {
        let (address, host_name) = (address.parse().unwrap(), "Cellar".to_owned());
        let data = |seen: Seen<'_>| format!("after {} of {:?}", seen.after, seen.run);
        let answer = answer(request, &Place { address, host_name }, "the page", data);
        String::from_utf8(answer).unwrap()
    }

    fn ask(request: &str) -> String {
        ask_at("127.0.0.1:7070", request)
    }

    fn get(target: &str) -> String {
        ask(&format!("GET {target} HTTP/1.1\r\nHost: localhost:7070\r\n\r\n"))
    }

    #[test]
    fn there_are_a_page_and_its_data() {
        let ends = |text: String, end: &str| assert!(text.ends_with(end), "{text}");
        ends(get("/"), "\r\n\r\nthe page");
        ends(get("/data"), "\r\n\r\nafter 0 of \"\"");
        ends(get("/data?after=17"), "\r\n\r\nafter 17 of \"\"");
        ends(get("/data?run=a1&after=17"), "\r\n\r\nafter 17 of \"a1\"");
        ends(get("/data?run=&after=-1"), "\r\n\r\nafter 0 of \"\"");
        assert!(get("/").contains("; frame-ancestors 'none'; base-uri 'none'\r\n"));
        assert!(get("/etc/passwd").starts_with("HTTP/1.1 404 "));
        assert!(
            ask("POST / HTTP/1.1\r\nHost: localhost:7070\r\n\r\n").starts_with("HTTP/1.1 405 ")
        );
    }

    #[test]
    fn a_request_to_another_host_is_refused() {
        // A site can have its name resolved to any address that is listened on.
        for address in ["127.0.0.1:7070", "0.0.0.0:7070", "[::]:7070"] {
            let local = ["localhost", "localhost:80", "127.0.0.1:70", "[::1]", "::1:7070", ":7070"];
            for host in local.into_iter().chain(["evil.test", "evil.test:7070", "1.2.3:7070", ""]) {
                let request = format!("GET /data HTTP/1.1\r\nHost: {host}\r\n\r\n");
                let text = ask_at(address, &request);
                assert!(text.starts_with("HTTP/1.1 403 "), "{address}, {host}: {text}");
            }
            let unnamed = ask_at(address, "GET /data HTTP/1.1\r\n\r\n");
            assert!(unnamed.starts_with("HTTP/1.1 403 "), "{address}: {unnamed}");
            let local = ["localhost:7070", "LocalHost:7070", "127.0.0.1:7070", "[::1]:7070"];
            for host in local.into_iter().chain(["10.1.2.3:7070", "[fe80::7]:7070", "cellar:7070"])
            {
                let text = ask_at(address, &format!("GET / HTTP/1.1\r\nhost:  {host}\r\n\r\n"));
                assert!(text.starts_with("HTTP/1.1 200 "), "{address}, {host}: {text}");
            }
        }
        let text = ask_at("127.0.0.1:80", "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    }

    #[test]
    fn without_a_name_of_the_system_an_empty_host_is_refused() {
        let place = Place { address: "0.0.0.0:80".parse().unwrap(), host_name: String::new() };
        assert_eq!(["", ":80", "localhost"].map(|host| is_own(host, &place)), [false, false, true]);
    }

    /// A stopped clock, so no client times out.
    struct Standing;

    impl Clock for Standing {
        fn now(&self) -> Duration {
            Duration::ZERO
        }
        fn sleep(&self, _: Duration) {}
    }

    #[test]
    fn a_silent_client_and_a_slow_one_delay_no_other() {
        let mut server = Server::listen(([127, 0, 0, 1], 0).into()).unwrap();
        let connect = || TcpStream::connect(server.address()).unwrap();
        let (_silent, mut half, mut asking) = (connect(), connect(), connect());
        half.write_all(b"GET / HT").unwrap();
        let request = format!("GET /data HTTP/1.1\r\nHost: {}\r\n\r\n", server.address());
        asking.write_all(request.as_bytes()).unwrap();
        asking.set_nonblocking(true).unwrap();
        // More than a socket takes at once.
        let long = "x".repeat(20 << 20);
        let (mut answer, mut piece) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            server.serve(&Standing, "the page", |_| long.clone());
            match asking.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => answer.extend_from_slice(&piece[..read]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        assert!(answer.len() > long.len() && answer.ends_with(b"xxx"));
        assert_eq!(server.clients.len(), 2, "they are waited for meanwhile");
    }

    /// What the server answers to `request`, after which the client ends its side if `ends`.
    fn answer_to(request: &[u8], ends: bool) -> String {
        let mut server = Server::listen(([127, 0, 0, 1], 0).into()).unwrap();
        let mut client = TcpStream::connect(server.address()).unwrap();
        client.set_nonblocking(true).unwrap();
        let (mut sent, mut answer, mut piece) = (0, Vec::new(), [0; 1024]);
        loop {
            if sent < request.len() {
                match client.write(&request[sent..]) {
                    Ok(written) => sent += written,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
                if sent == request.len() && ends {
                    client.shutdown(Shutdown::Write).unwrap();
                }
            }
            server.serve(&Standing, "the page", |_| "the data".to_owned());
            match client.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => answer.extend_from_slice(&piece[..read]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn a_client_that_ends_its_side_after_the_request_is_answered() {
        let answer = answer_to(b"GET /data HTTP/1.1\r\n\r\n", true);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    }

    #[test]
    fn a_request_with_many_cookies_is_answered_and_one_that_is_too_long_as_well() {
        let request = |bytes| {
            let cookies = "c".repeat(bytes);
            format!("GET / HTTP/1.1\r\nCookie: {cookies}\r\n\r\n").into_bytes()
        };
        let answer = answer_to(&request(40_000), false);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        let answer = answer_to(&request(4 << 20), false);
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
}
