//! A worker process, from the outside.

use super::cgroup::Cgroup;
use super::plan::{Message, Plan};
use super::process::{Ended, line};
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How often the user's wish to stop is looked for.
const GLANCE: Duration = Duration::from_millis(50);

/// Carries out `plan` in a process of its own, in a group if one is given. `hear` gets all messages but
/// the last; an interrupt ends the process.
pub fn run(
    plan: &Plan,
    group: Option<&Cgroup>,
    interrupt: &Interrupt,
    hear: &mut dyn FnMut(Message),
) -> Outcome<esker_bench::Outcome> {
    let mut child = Ended::new(start()?);
    if let Some(group) = group {
        // It has no plan yet, so nothing that counts is in its memory.
        let taken_in = group.take_in(child.0.id());
        taken_in.map_err(|error| Failure::io("limit", "the memory of a process", error))?;
    }
    // Held open until the end: the worker goes when it closes.
    let mut stdin = child.0.stdin.take().expect("it was asked for");
    let stdout = child.0.stdout.take().expect("it was asked for");
    // A worker that has failed already says why below.
    let _ = stdin.write_all(&line(plan)?);
    let result = std::thread::scope(|scope| {
        let (sender, lines) = channel();
        scope.spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let result = listen(&lines, interrupt, hear);
        if result.is_err() {
            // So that the reader above comes to an end.
            let _ = child.0.kill();
        }
        result
    });
    let message = match result? {
        Some(Message::Done(outcome)) => return Ok(outcome),
        Some(Message::Failed { message, is_usage: true }) => return Err(Failure::Usage(message)),
        Some(Message::Failed { message, .. }) => message,
        _ => match child.0.wait() {
            // A signal to all processes of the terminal ends the worker, too, and first.
            _ if interrupt.is_set() => return Err(interrupted()),
            Ok(status) => format!("the process that ran it ended early: {status}"),
            Err(error) => format!("the process that ran it is lost: {error}"),
        },
    };
    Err(Failure::new(format!("{}, {}: {message}", plan.engine, plan.case)))
}

fn interrupted() -> Failure {
    Failure::Interrupted("interrupted".to_owned())
}

fn start() -> Outcome<Child> {
    let failed = |error| Failure::io("start", "a process of this program", error);
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(["bench", "worker"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().map_err(failed)
}

/// Receives messages until the last one. `None` if there is none.
fn listen(
    lines: &Receiver<String>,
    interrupt: &Interrupt,
    hear: &mut dyn FnMut(Message),
) -> Outcome<Option<Message>> {
    loop {
        let line = lines.recv_timeout(GLANCE);
        if interrupt.is_set() {
            return Err(interrupted());
        }
        match line {
            Ok(line) => match serde_json::from_str(&line)? {
                last @ (Message::Done(_) | Message::Failed { .. }) => return Ok(Some(last)),
                message => hear(message),
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}
