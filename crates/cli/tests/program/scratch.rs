//! A directory of a test's own, and the program run in it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory of a test's own, with a database in it or not.
pub struct Scratch(tempfile::TempDir);

/// What the program did.
#[derive(Debug)]
pub struct Done {
    pub status: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl Scratch {
    pub fn new() -> Self {
        Scratch(tempfile::tempdir().unwrap())
    }

    /// One with these entries in the default keyspace.
    pub fn with_pairs(pairs: &[(&str, &str)]) -> Self {
        let scratch = Scratch::new();
        let lines: String = pairs.iter().map(|(key, value)| format!("{key}\t{value}\n")).collect();
        let file = scratch.file("pairs.tsv", format!("esker:key\tesker:value\n{lines}").as_bytes());
        scratch.run(&["import", "db", &file]).expect_status(0);
        scratch
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a file, and gives its name, relative to where the program runs.
    pub fn file(&self, name: &str, content: &[u8]) -> String {
        std::fs::write(self.path(name), content).unwrap();
        name.to_owned()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command.current_dir(self.0.path()).args(arguments).stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Done {
        Done::of(self.command(arguments).output().unwrap())
    }

    /// Runs the program with `input` on its standard input.
    pub fn run_with(&self, arguments: &[&str], input: &[u8]) -> Done {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // The program may have ended before it read everything, which is its own affair.
                let _ = stdin.write_all(input);
            });
            Done::of(child.wait_with_output().unwrap())
        })
    }

    pub fn open(&self) -> esker::Db {
        esker::Db::open(self.path("db"), esker::Settings::default()).unwrap()
    }
}

impl Done {
    pub fn of(output: std::process::Output) -> Self {
        Done {
            status: output.status.code().unwrap_or(-1),
            out: output.stdout,
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub fn expect_status(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Success, nothing on standard error, and this on standard output.
    #[track_caller]
    pub fn expect(self, out: &str) {
        let done = self.expect_status(0);
        assert_eq!((String::from_utf8_lossy(&done.out).as_ref(), &done.err[..]), (out, ""));
    }

    /// This status, nothing on standard output, and a message that starts as all do and holds `part`.
    #[track_caller]
    pub fn expect_failure(self, status: i32, part: &str) {
        let done = self.expect_status(status);
        assert!(done.out.is_empty(), "{done:?}");
        assert!(done.err.starts_with(crate::PREFIX) && done.err.contains(part), "{done:?}");
        assert!(!done.err.contains("panicked"), "{done:?}");
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }
}

/// The names in a directory, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let names = dir.read_dir().unwrap().map(|file| file.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Interrupts a program that works in a temporary directory, and expects nothing left of it.
pub fn interrupt(arguments: &[&str], signal: &str) {
    let scratch = Scratch::new();
    let tmp = scratch.path("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let mut child = scratch
        .command(arguments)
        .env("TMPDIR", &tmp)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The directory appears after the program has begun to listen, and then a database in it.
    let is_at_work =
        || names(&tmp).first().is_some_and(|dir| tmp.join(dir).join("CURRENT").exists());
    while !is_at_work() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(130), "{arguments:?}");
    assert!(names(&tmp).is_empty(), "{:?}", names(&tmp));
}
