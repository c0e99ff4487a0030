//! What a promotion loses if the primary is killed while it writes:
//!
//! `cargo run --release -p esker-replication --example promotion_loss -- [ROUNDS] [os | always] [PUTS A SECOND]`
//!
//! In each round a process writes puts of 100 bytes, one after another, and serves a follower in this process over a
//! loopback connection. It is killed by SIGKILL at a random time between one and three seconds, and the follower is
//! promoted. The log of the killed process is still there, so its database says what it has written, and the values say
//! when: the puts that the promoted one lacks are lost, as they are if the primary's machine is. Without a rate, the
//! process writes as fast as it can.

use esker_base::{Clock, Entropy, SystemClock, SystemEntropy};
use esker_lsm::{Db, Log, Settings, SyncPolicy};
use esker_replication::{Follower, FollowerSettings, Primary, PrimarySettings};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const VALUE_BYTES: usize = 100;
const PATIENCE: Duration = Duration::from_secs(60);
/// Puts come in groups, this long apart, if there is a rate.
const GROUP: Duration = Duration::from_millis(1);
/// Enough for all that a round writes, so that no other base is needed.
const BOUND_BYTES: u64 = 64 << 30;

fn settings(sync: &str) -> Settings {
    let sync = match sync {
        "os" => SyncPolicy::Os,
        "always" => SyncPolicy::Always,
        other => panic!("{other:?} is neither \"os\" nor \"always\""),
    };
    Settings::default().log(Log::File { dir: None, sync })
}

fn number(argument: Option<String>, default: u64) -> u64 {
    argument.map_or(default, |it| it.parse().expect("a number"))
}

/// The process that is killed. Writes once there is a line on its input.
fn write(dir: &Path, sync: &str, rate: u64) {
    let db = Db::open(dir, settings(sync)).expect("a database");
    let any = "127.0.0.1:0".parse().expect("an address");
    let primary = PrimarySettings::new(any).bound_bytes(BOUND_BYTES);
    let primary = Primary::start(db.clone(), primary).expect("a primary");
    println!("{}", primary.address());
    std::io::stdin().read_line(&mut String::new()).expect("a line");
    let (keyspace, clock) = (db.default_keyspace(), SystemClock::new());
    let began = clock.now();
    let group = (rate * GROUP.as_micros() as u64 / 1_000_000).max(1);
    for at in 1_u64.. {
        if rate > 0 && at % group == 0 {
            let due = began + Duration::from_nanos(at * 1_000_000_000 / rate);
            clock.sleep(due.saturating_sub(clock.now()));
        }
        let mut value = (clock.calendar().as_nanos() as u64).to_le_bytes().to_vec();
        value.resize(VALUE_BYTES, 7);
        keyspace.put(at.to_be_bytes(), value).expect("a put");
    }
}

/// A process that ends with this one.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a round has found.
struct Round {
    puts: u64,
    lost: u64,
    /// From the first put that was lost to the last one.
    lost_time: Duration,
    seconds: f64,
}

fn round(sync: &str, rate: u64) -> Round {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let [of_primary, of_copy] = ["primary", "copy"].map(|name| dir.path().join(name));
    let clock = SystemClock::new();
    let child = Command::new(std::env::current_exe().expect("this program"))
        .arg("write")
        .arg(&of_primary)
        .args([sync, &rate.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut writer = Writer(child.expect("a process"));
    let mut address = String::new();
    let out = writer.0.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut address).expect("an address");
    let address = address.trim().parse().expect("an address");
    let of_follower = FollowerSettings::new(address, "copy").database(settings(sync));
    let follower = Follower::start(&of_copy, of_follower).expect("a follower");
    let is_there = follower.wait(PATIENCE, |it| it.bases == 1 && it.connections == 1);
    assert!(is_there, "{:?}", follower.stats());
    writer.0.stdin.take().expect("it is piped").write_all(b"go\n").expect("it reads");
    let mut chance = [0; 2];
    SystemEntropy.fill(&mut chance).expect("random bytes");
    clock.sleep(Duration::from_millis(1_000 + u64::from(u16::from_le_bytes(chance)) % 2_000));
    writer.0.kill().expect("it is killed");
    writer.0.wait().expect("it has ended");
    assert!(follower.wait(PATIENCE, |it| !it.is_connected), "{:?}", follower.stats());
    assert_eq!(follower.stats().bases, 1, "the writes came after the base");
    let promoted = follower.promote().expect("a promotion").snapshot().seqno();

    let primary = Db::open(&of_primary, settings(sync)).expect("what was killed");
    let puts = primary.snapshot().seqno();
    let time_of = |put: u64| {
        let value = primary.default_keyspace().get(put.to_be_bytes()).expect("a read");
        let bytes = value.expect("a put")[..8].try_into().expect("a time");
        Duration::from_nanos(u64::from_le_bytes(bytes))
    };
    let lost = puts - promoted;
    let last = time_of(puts);
    let lost_time = if lost > 0 { last - time_of(promoted + 1) } else { Duration::ZERO };
    Round { puts, lost, lost_time, seconds: (last - time_of(1)).as_secs_f64() }
}

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if_eq("write").is_some() {
        let dir = arguments.next().expect("a directory");
        let sync = arguments.next().expect("a policy");
        return write(Path::new(&dir), &sync, number(arguments.next(), 0));
    }
    let rounds = number(arguments.next(), 20);
    let sync = arguments.next().unwrap_or_else(|| "os".to_owned());
    let rate = number(arguments.next(), 0);
    let mut all: Vec<Round> = (0..rounds.max(1)).map(|_| round(&sync, rate)).collect();
    let rates = all.iter().map(|it| it.puts as f64 / it.seconds);
    let rate = rates.sum::<f64>() / all.len() as f64;
    all.sort_by_key(|round| round.lost);
    let lost: Vec<u64> = all.iter().map(|round| round.lost).collect();
    let mut times: Vec<f64> = all.iter().map(|it| it.lost_time.as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    let (middle, end) = (all.len() / 2, all.len() - 1);
    println!(
        "{} kills, sync {sync}, {rate:.0} puts/s: lost puts: median {}, maximum {}; ms: median {:.1}, maximum \
         {:.1}; without loss: {}",
        all.len(),
        lost[middle],
        lost[end],
        times[middle],
        times[end],
        lost.iter().filter(|lost| **lost == 0).count(),
    );
}
