//! The few answers in HTTP that a page needs, without waiting for any client.
//!
//! A page of another site must not read this one through the browser. So a request is answered only if
//! its `Host` is the address that is listened on, or a name of this machine: that of a site that had its
//! own name resolved to this machine is another one. No answer allows other origins.

use crate::failure::{Failure, Outcome};
use esker::env::Clock;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// How long a client may take to ask and to take its answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest request.
const REQUEST_BYTES: usize = 8 << 10;
/// Clients at once; more wait to be accepted.
const CLIENTS: usize = 32;

pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    clients: Vec<Client>,
}

struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    /// The answer and how much of it is sent, once the request is whole.
    answer: Option<(Vec<u8>, usize)>,
    deadline: Duration,
}

impl Server {
    pub fn listen(address: SocketAddr) -> Outcome<Server> {
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Server { listener, address, clients: Vec::new() })
        };
        listen().map_err(|error| Failure::io("listen on", address.to_string(), error))
    }

    /// Where, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Goes on with the clients as far as that takes no waiting. `data` is the answer to a page that has
    /// the samples up to a number.
    pub fn serve(&mut self, clock: &dyn Clock, page: &str, data: impl Fn(u64) -> String) {
        while self.clients.len() < CLIENTS
            && let Ok((stream, _)) = self.listener.accept()
        {
            if stream.set_nonblocking(true).is_ok() {
                let deadline = clock.now() + PATIENCE;
                self.clients.push(Client { stream, request: Vec::new(), answer: None, deadline });
            }
        }
        let (now, address) = (clock.now(), self.address);
        self.clients.retain_mut(|client| {
            client.go_on(|request| answer(request, address, page, &data)) && now < client.deadline
        });
    }
}

impl Client {
    /// Reads, then writes. Returns false once it is over.
    fn go_on(&mut self, answer: impl FnOnce(&str) -> Vec<u8>) -> bool {
        if self.answer.is_none() {
            let mut piece = [0; 1024];
            loop {
                match self.stream.read(&mut piece) {
                    Ok(0) => return false,
                    Ok(read) => self.request.extend_from_slice(&piece[..read]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return false,
                }
                if self.request.len() > REQUEST_BYTES {
                    return false;
                }
            }
            if !self.request.windows(4).any(|end| end == b"\r\n\r\n") {
                return true;
            }
            self.answer = Some((answer(&String::from_utf8_lossy(&self.request)), 0));
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
        false
    }
}

/// The answer to a request.
fn answer(request: &str, address: SocketAddr, page: &str, data: impl Fn(u64) -> String) -> Vec<u8> {
    let mut lines = request.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let host = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    let text = "text/plain; charset=utf-8";
    if !host.is_some_and(|host| is_own(host, address)) {
        return response("403 Forbidden", text, "the host is not this machine\n");
    }
    if method != "GET" {
        return response("405 Method Not Allowed", text, "GET only\n");
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match path {
        "/" => response("200 OK", "text/html; charset=utf-8", page),
        "/data" => {
            let after = query.strip_prefix("after=").and_then(|number| number.parse().ok());
            response("200 OK", "application/json", &data(after.unwrap_or(0)))
        }
        _ => response("404 Not Found", text, "there are / and /data\n"),
    }
}

/// Whether a client that names this host means this program.
fn is_own(host: &str, address: SocketAddr) -> bool {
    if host == address.to_string() {
        return true;
    }
    let (name, port) = host.rsplit_once(':').unwrap_or((host, "80"));
    let is_local = ["localhost", "127.0.0.1", "[::1]"].contains(&name);
    // On all addresses, the names of this machine are not known.
    let is_any = address.ip().is_unspecified();
    port == address.port().to_string() && (is_local || is_any)
}

fn response(status: &str, kind: &str, body: &str) -> Vec<u8> {
    // The page is one file: nothing else may be loaded, by whatever a key says.
    let policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                  connect-src 'self'; img-src data:";
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

    fn ask(request: &str) -> String {
        let address = "127.0.0.1:7070".parse().unwrap();
        let data = |after: u64| format!("after {after}");
        String::from_utf8(answer(request, address, "the page", data)).unwrap()
    }

    fn get(target: &str) -> String {
        ask(&format!("GET {target} HTTP/1.1\r\nHost: localhost:7070\r\n\r\n"))
    }

    #[test]
    fn there_are_a_page_and_its_data() {
        let ends = |text: String, end: &str| assert!(text.ends_with(end), "{text}");
        ends(get("/"), "\r\n\r\nthe page");
        ends(get("/data"), "\r\n\r\nafter 0");
        ends(get("/data?after=17"), "\r\n\r\nafter 17");
        ends(get("/data?after=-1"), "\r\n\r\nafter 0");
        assert!(get("/etc/passwd").starts_with("HTTP/1.1 404 "));
        assert!(
            ask("POST / HTTP/1.1\r\nHost: localhost:7070\r\n\r\n").starts_with("HTTP/1.1 405 ")
        );
    }

    #[test]
    fn a_request_to_another_host_is_refused() {
        for host in ["evil.test", "evil.test:7070", "localhost", "localhost:80", "127.0.0.1:70", ""]
        {
            let text = ask(&format!("GET /data HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert!(text.starts_with("HTTP/1.1 403 "), "{host}: {text}");
        }
        assert!(ask("GET /data HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 403 "));
        for host in ["localhost:7070", "127.0.0.1:7070", "[::1]:7070"] {
            let text = ask(&format!("GET / HTTP/1.1\r\nhost:  {host}\r\n\r\n"));
            assert!(text.starts_with("HTTP/1.1 200 "), "{host}: {text}");
        }
    }

    /// It is: no patience ends.
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
}
