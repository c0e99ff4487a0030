//! A job queue: each job is taken by one worker, oldest first. A job that a worker has when the process
//! dies waits again after the next open.
//!
//! cargo run -p esker --example job_queue

use esker::{Db, Error, Keyspace, KeyspaceSettings, Settings, tuple};

/// Jobs that wait, by number: `("waiting", number)`.
const WAITING: &str = "waiting";
/// Jobs that a worker of this process has: `("taken", number)`.
const TAKEN: &str = "taken";

type Key = (String, u64);
type AnyError = Box<dyn std::error::Error + Send + Sync>;

fn add(jobs: &Keyspace, number: u64, job: &str) -> Result<(), Error> {
    jobs.put(tuple::encode(&(WAITING, number)), job)
}

/// Takes the oldest job and returns it with its number. `None` if none waits.
fn take(db: &Db, jobs: &Keyspace) -> Result<Option<(u64, Vec<u8>)>, AnyError> {
    let taken = db.transact(|tx| {
        let oldest = tx.prefix(jobs, tuple::encode(&(WAITING,))).next();
        let Some((key, _)) = oldest.transpose()? else { return Ok(None) };
        // A conflict if another worker was faster: then the closure runs again and finds the next job.
        let Some(job) = tx.get_for_update(jobs, &key)? else { return Ok(None) };
        let (_, number): Key = tuple::decode(&key).expect("this program wrote the key");
        tx.delete(jobs, &key)?;
        tx.put(jobs, tuple::encode(&(TAKEN, number)), &job)?;
        Ok(Some((number, job.to_vec())))
    })?;
    Ok(taken)
}

fn finish(jobs: &Keyspace, number: u64) -> Result<(), Error> {
    jobs.delete(tuple::encode(&(TAKEN, number)))
}

/// Lets jobs wait again that were taken before the process ended. Call it before the workers start.
fn recover(db: &Db, jobs: &Keyspace) -> Result<usize, AnyError> {
    let mut batch = db.batch();
    let mut recovered = 0;
    for entry in jobs.prefix(tuple::encode(&(TAKEN,))) {
        let (key, job) = entry?;
        let (_, number): Key = tuple::decode(&key)?;
        batch.delete(jobs, &key);
        batch.put(jobs, tuple::encode(&(WAITING, number)), &job);
        recovered += 1;
    }
    db.write(&batch)?;
    Ok(recovered)
}

/// Runs the example in a temporary directory.
pub fn main() -> Result<(), AnyError> {
    const JOBS: u64 = 100;
    let dir = tempfile::tempdir()?;
    let open = || {
        let db = Db::open(dir.path().join("data"), Settings::default())?;
        let jobs = db.keyspace("jobs", KeyspaceSettings::default())?;
        Ok::<_, Error>((db, jobs))
    };
    {
        let (db, jobs) = open()?;
        for number in 0..JOBS {
            add(&jobs, number, &format!("job {number}"))?;
        }
        // Workers take five jobs, and the process ends before they have done them.
        for _ in 0..5 {
            take(&db, &jobs)?;
        }
    }
    let (db, jobs) = open()?;
    assert_eq!(recover(&db, &jobs)?, 5);
    let mut done = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            while let Some((number, job)) = take(&db, &jobs)? {
                done.push(job);
                finish(&jobs, number)?;
            }
            Ok::<_, AnyError>(done)
        };
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().expect("a worker panicked")?);
        }
        Ok::<_, AnyError>(all)
    })?;
    done.sort();
    assert!(done.windows(2).all(|two| two[0] != two[1]), "no job was done twice");
    assert_eq!(done.len() as u64, JOBS, "no job was lost");
    assert!(jobs.is_empty()?);
    Ok(())
}
