//! `esker ui`: the page of a database that this process has open.

use super::scratch::Scratch;
use esker::env::{Clock, SystemClock};
use esker::{Db, Settings};
use serde_json::Value as Json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

const GIVEN_UP_AFTER: Duration = Duration::from_secs(300);

/// The program, ended with the test.
pub struct Page {
    child: Child,
    pub address: String,
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Page {
    pub fn start(scratch: &Scratch) -> Page {
        let arguments = ["--json", "ui", "db", "--listen", "127.0.0.1:0", "--interval", "0.2"];
        let child = scratch.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut page = Page { child, address: String::new() };
        let mut line = String::new();
        BufReader::new(page.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let started: Json = serde_json::from_str(&line).unwrap();
        page.address = started["address"].as_str().unwrap().to_owned();
        page
    }

    fn get(&self, target: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    fn data(&self) -> Json {
        serde_json::from_str(&self.get("/data?after=0").1).unwrap()
    }

    /// The data once `holds` of it. Fails after a time that no machine needs.
    fn data_when(&self, holds: impl Fn(&Json) -> bool) -> Json {
        let clock = SystemClock::new();
        loop {
            let data = self.data();
            if holds(&data) {
                return data;
            }
            assert!(clock.now() < GIVEN_UP_AFTER, "{data}");
            clock.sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn the_page_has_samples_and_the_tree_and_says_when_the_database_is_closed() {
    let scratch = Scratch::new();
    let settings = Settings::default().answers_requests(true);
    let db = Db::open(scratch.path("db"), settings).unwrap();
    let keyspace = db.default_keyspace();
    (0..50_u32).for_each(|n| keyspace.put(format!("key{n}"), "value").unwrap());
    db.flush().unwrap();
    let page = Page::start(&scratch);
    let (head, body) = page.get("/");
    assert!(head.starts_with("HTTP/1.1 200 ") && body.starts_with("<!doctype html>"), "{head}");
    assert!(head.contains("Content-Security-Policy: default-src 'none'"), "{head}");
    // Nothing else is loaded: only the namespace of SVG is an address.
    let addresses: Vec<_> = body.match_indices("http").map(|(at, _)| &body[at..at + 27]).collect();
    assert_eq!(addresses, ["http://www.w3.org/2000/svg\""]);
    let data = page.data_when(|data| {
        data["samples"].as_array().is_some_and(|it| it.len() >= 2) && !data["tree"].is_null()
    });
    assert_eq!(data["latest"]["metrics"]["esker_writes_total"], 50.0);
    assert_eq!(data["notice"], Json::Null);
    assert_eq!(data["tree"]["keyspaces"][0]["name"], "default");
    assert_eq!(data["tree"]["keyspaces"][0]["runs"][0]["pieces"][0][4], "key0");
    db.close().unwrap();
    let data = page.data_when(|data| data["notice"].is_string());
    assert!(data["notice"].as_str().unwrap().contains("no process has the database"), "{data}");
}

#[test]
fn a_database_that_does_not_exist_is_named() {
    let scratch = Scratch::new();
    scratch.run(&["ui", "nodb", "--listen", "127.0.0.1:0"]).expect_failure(2, "nodb");
    assert!(!scratch.path("nodb").exists());
}
