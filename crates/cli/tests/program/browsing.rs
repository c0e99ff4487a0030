//! The page of `esker ui` in a real browser, narrow and wide, of a database at work.

use crate::Scratch;
use crate::showing_pages::Page;
use esker::env::{Clock, SystemClock};
use esker::{Db, KeyspaceSettings, Settings};
use esker_base::Rng;
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const GIVEN_UP_AFTER: Duration = Duration::from_secs(300);

/// Where screenshots are written, if it is set.
const SCREENSHOTS: &str = "ESKER_SCREENSHOTS";

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// A browser that takes commands through pipes, by the DevTools protocol.
struct Browser {
    child: Child,
    commands: File,
    answers: File,
    /// What came, up to the zero at the end of each message.
    received: VecDeque<u8>,
    number: u64,
    session: Option<String>,
    /// Errors that the page reported.
    errors: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let all = std::env::split_paths(&path);
    all.flat_map(|dir| BROWSERS.map(|name| dir.join(name))).find(|file| file.is_file())
}

impl Browser {
    fn start(program: &Path) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let pipes = ["commands", "answers"].map(|name| profile.path().join(name));
        assert!(Command::new("mkfifo").args(&pipes).status().unwrap().success());
        // The page is our own, and a container may have no sandbox.
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-pipe",
        ];
        // A program gets the pipes as its files 3 and 4. Both ends wait for each other.
        let child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<\"$COMMANDS\" 4>\"$ANSWERS\"", "sh"])
            .arg(program)
            .args(arguments)
            .arg(format!("--user-data-dir={}", profile.path().join("profile").display()))
            .envs(["COMMANDS", "ANSWERS"].into_iter().zip(&pipes))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let commands = File::options().write(true).open(&pipes[0]).unwrap();
        let answers = File::open(&pipes[1]).unwrap();
        let mut browser = Browser {
            child,
            commands,
            answers,
            received: VecDeque::new(),
            number: 0,
            session: None,
            errors: Vec::new(),
            _profile: profile,
        };
        let page = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach)["sessionId"].clone();
        browser.session = Some(session.as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Has the browser do something, and returns its answer.
    fn call(&mut self, method: &str, parameters: Json) -> Json {
        self.number += 1;
        let mut command = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            command["sessionId"] = session.clone().into();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let message = self.message();
            if message["id"] == self.number {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            let parameters = &message["params"];
            let is_error = match message["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => true,
                "Runtime.consoleAPICalled" => parameters["type"] == "error",
                "Log.entryAdded" => parameters["entry"]["level"] == "error",
                _ => false,
            };
            if is_error {
                self.errors.push(parameters.to_string());
            }
        }
    }

    fn message(&mut self) -> Json {
        let mut piece = [0; 64 << 10];
        loop {
            if let Some(end) = self.received.iter().position(|&byte| byte == 0) {
                let message: Vec<u8> = self.received.drain(..=end).collect();
                return serde_json::from_slice(&message[..end]).unwrap();
            }
            let read = self.answers.read(&mut piece).unwrap();
            assert!(read > 0, "the browser has ended");
            self.received.extend(&piece[..read]);
        }
    }

    /// The value of an expression in the page.
    fn value(&mut self, expression: &str) -> Json {
        let parameters = json!({ "expression": expression, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", parameters);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression holds in the page, or fails because of `fault`.
    fn wait_until(&mut self, expression: &str, fault: &str) {
        let clock = SystemClock::new();
        while self.value(expression) != true {
            assert!(clock.now() < GIVEN_UP_AFTER, "{fault}: {expression}: {:?}", self.errors);
            clock.sleep(Duration::from_millis(20));
        }
    }

    fn show(&mut self, address: &str, width: u32) {
        let (height, scale) = (900, 1);
        let view = json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", view);
        self.call("Page.navigate", json!({ "url": format!("http://{address}/") }));
    }

    /// Writes a picture of the whole page, if `ESKER_SCREENSHOTS` has a directory. Then the curves have a while to
    /// grow.
    fn take_picture(&mut self, name: &str) {
        let Some(dir) = std::env::var_os(SCREENSHOTS) else { return };
        // Before it is drawn again: otherwise the bar's width is missing in the picture.
        self.call("Emulation.setScrollbarsHidden", json!({ "hidden": true }));
        self.wait_until("samples.length > 150", "no samples come");
        let picture = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }));
        let bytes = decoded(picture["data"].as_str().unwrap());
        std::fs::write(PathBuf::from(dir).join(name), bytes).unwrap();
        self.call("Emulation.setScrollbarsHidden", json!({ "hidden": false }));
    }
}

/// The bytes of a text in base64.
fn decoded(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("{byte} is no digit"),
    };
    let digits: Vec<u8> = text.trim_end_matches('=').bytes().map(digit).collect();
    let bytes = digits.chunks(4).flat_map(|four| {
        let bits = four.iter().fold(0_u32, |bits, &digit| bits << 6 | u32::from(digit));
        let bits = bits << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    });
    bytes.collect()
}

/// Ends the work, also if the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes and reads until `is_over`.
fn work(db: &Db, is_over: &AtomicBool) {
    let [orders, users] =
        ["orders", "users"].map(|name| db.keyspace(name, KeyspaceSettings::default()).unwrap());
    let (mut number, mut random) = (0_u64, Rng::new(7));
    let mut value =
        |bytes: usize| -> Vec<u8> { (0..bytes).map(|_| random.next_u64() as u8).collect() };
    while !is_over.load(Ordering::Relaxed) {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 20_000;
        orders.put(format!("order/{key:06}"), value(300)).unwrap();
        if number.is_multiple_of(4) {
            users.put(format!("user/{:06}", key % 5_000), value(100)).unwrap();
        }
        let _ = orders.get(format!("order/{:06}", key / 2)).unwrap();
        if number.is_multiple_of(64) {
            users.multi_get([format!("user/{key:06}"), "user/000007".into()]).unwrap();
            assert!(orders.prefix(format!("order/{:04}", key / 100)).take(20).all(|it| it.is_ok()));
        }
        number += 1;
    }
}

/// What is to be true of the page once it has some samples, at any width.
const FACTS: [(&str, &str); 8] = [
    // A scroll bar at the side takes some of the width.
    (
        "it scrolls sideways",
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth",
    ),
    (
        "a card leaves it",
        "document.querySelectorAll('.card').length > 3 && [...document.querySelectorAll('.card')].every(card => card.getBoundingClientRect().right <= document.documentElement.clientWidth && card.scrollWidth <= card.clientWidth)",
    ),
    (
        "a table is cut off",
        "document.querySelectorAll('.scroll').length > 0 && [...document.querySelectorAll('.scroll')].every(part => part.scrollWidth <= part.clientWidth)",
    ),
    (
        "there is no rate of calls",
        "!['–', '0'].includes(document.getElementById('t-calls').textContent)",
    ),
    ("there is no latency", "document.getElementById('t-write').textContent !== '–'"),
    (
        "a curve is empty",
        "['calls', 'bytes', 'latency'].every(it => document.querySelectorAll(`#c-${it} path[d*=L]`).length > 0)",
    ),
    ("there is no level", "document.querySelectorAll('#levels td').length > 0"),
    ("the tree is empty", "document.querySelectorAll('#tree rect').length > 0"),
];

#[test]
fn the_page_fits_a_narrow_and_a_wide_window_and_shows_the_database_at_work() {
    let Some(program) = browser() else {
        return esker_base::skipped(
            "the_page_fits_a_narrow_and_a_wide_window",
            "there is no Chromium: apt-get install chromium",
        );
    };
    let scratch = Scratch::new();
    let settings =
        Settings::default().answers_requests(true).segment_bytes(1 << 20).memory_bytes(64 << 20);
    let db = Db::open(scratch.path("db"), settings).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let _ends = Ends(&is_over);
        threads.spawn(|| work(&db, &is_over));
        let page = Page::start(&scratch);
        let mut browser = Browser::start(&program);
        for width in [400, 1280] {
            browser.show(&page.address, width);
            let is_drawn =
                "document.querySelectorAll('#tree rect').length > 3 && samples.length > 10";
            browser.wait_until(is_drawn, "nothing is drawn");
            assert_eq!(browser.value("innerWidth"), width);
            browser.take_picture(&format!("ui-{width}.png"));
            for (fault, fact) in FACTS {
                // A sample of a loaded machine may have no calls.
                browser.wait_until(fact, &format!("at {width} px {fault}"));
            }
        }
        assert_eq!(browser.errors, [""; 0]);
    });
    db.close().unwrap();
}
