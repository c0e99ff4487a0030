//! Kills a writer in mid-write, opens what it left, and compares that with what it had acknowledged.

use super::proof::Books;
use super::writer::{ACKNOWLEDGEMENT_BYTES, COMMAND};
use super::{prove, show::Show};
use crate::failure::{Failure, Outcome};
use crate::units;
use esker::{Db, Settings};
use esker_base::{Clock, SystemClock};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

const ROUNDS: u64 = 3;
/// SIGKILL, which a process can neither catch nor put off.
const SIGKILL: i32 = 9;

/// Kills and checks, some rounds.
pub fn demonstrate(dir: &Path, show: &mut Show) -> Outcome {
    show.line(
        "It writes batches of 1 to 8 entries, over two keyspaces, each synced to the device before",
    )?;
    show.line("it is acknowledged. Every batch shows by itself whether it is whole.")?;
    for round in 1..=ROUNDS {
        // Not one length, so that the kills find the writer, and the log, in different states.
        let lifetime = Duration::from_millis(200 + 137 * round);
        let acknowledged = write_and_kill(dir, lifetime)?;
        show.line(&format!(
            "killed after {} ms of writing; its last acknowledgement: batch {}",
            lifetime.as_millis(),
            units::count(acknowledged)
        ))?;
        examine(dir, acknowledged, show)?;
    }
    show.line(
        "(A killed process leaves the page cache behind; a power cut does not. That is tested",
    )?;
    show.line("on a simulated disk which drops and tears whatever was not synced: cargo test -p esker-sim)")
}

fn examine(dir: &Path, acknowledged: u64, show: &mut Show) -> Outcome {
    let clock = SystemClock::new();
    let db = Db::open_existing(dir, Settings::default())?;
    let recovery_ms = clock.now().as_secs_f64() * 1e3;
    let evidence = Books::open(&db)?.inspect(&db)?;
    let more = match evidence.batches.saturating_sub(acknowledged) {
        0 => "nothing beyond them".to_owned(),
        more => format!("{more} beyond, finished before the kill but not yet acknowledged"),
    };
    prove(
        show,
        evidence.batches >= acknowledged,
        &format!("all {} acknowledged batches are there; {more}", units::count(acknowledged)),
    )?;
    prove(
        show,
        true,
        &format!(
            "none is torn, altered or missing in between: {} checked ({recovery_ms:.0} ms to recover)",
            units::counted(evidence.pairs, "pair")
        ),
    )?;
    Ok(db.close()?)
}

/// Starts a writer, kills it `lifetime` after its first acknowledgement, and gives the number of the
/// last batch that it acknowledged.
fn write_and_kill(dir: &Path, lifetime: Duration) -> Outcome<u64> {
    let program =
        std::env::current_exe().map_err(|error| Failure::io("find", "this program", error))?;
    let started = Command::new(program)
        .arg(COMMAND)
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::io("start", "the writer", error))?;
    let mut writer = Writer(started);
    let mut pipe = writer.0.stdout.take().expect("the pipe was asked for");

    let clock = SystemClock::new();
    let mut first = None;
    let mut last = 0;
    while let Some(number) = next_acknowledgement(&mut pipe)? {
        last = number;
        let now = clock.now();
        if now - *first.get_or_insert(now) >= lifetime {
            break;
        }
    }
    writer.kill()?;
    // What it had said before it died counts as well.
    while let Some(number) = next_acknowledgement(&mut pipe)? {
        last = number;
    }
    if last == 0 {
        return Err(Failure::new("the writer wrote nothing"));
    }
    Ok(last)
}

/// A child that does not outlive the demo.
struct Writer(Child);

impl Writer {
    fn kill(&mut self) -> Outcome {
        let killed = self.0.kill().and_then(|()| self.0.wait());
        let status = killed.map_err(|error| Failure::io("kill", "the writer", error))?;
        if status.signal() == Some(SIGKILL) {
            return Ok(());
        }
        Err(Failure::new(format!("the writer ended by itself, before it was killed: {status}")))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Either it is dead already, or the demo failed and this is the last chance.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The next acknowledgement, or `None` at the pipe's end. A number cut short was never given.
fn next_acknowledgement(pipe: &mut ChildStdout) -> Outcome<Option<u64>> {
    let mut bytes = [0; ACKNOWLEDGEMENT_BYTES];
    match pipe.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(u64::from_le_bytes(bytes))),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(Failure::io("read from", "the writer's pipe", error)),
    }
}
