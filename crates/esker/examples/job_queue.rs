//! A queue that survives crashes: each job is taken by one worker, in order.
//!
//! cargo run -p esker --example job_queue

use esker::{Db, Error, Keyspace, KeyspaceSettings, Settings, tuple};

/// Jobs that wait, by number: `("waiting", number)`.
const WAITING: &str = "waiting";

/// Takes the oldest job. `None` if none waits.
fn take(db: &Db, jobs: &Keyspace) -> Result<Option<Vec<u8>>, Error> {
    db.transact(|tx| {
        let oldest = tx.prefix(jobs, tuple::encode(&(WAITING,))).next();
        let Some((key, _)) = oldest.transpose()? else { return Ok(None) };
        // A conflict if another worker was faster: then the closure runs again and finds the next job.
        let job = tx.get_for_update(jobs, &key)?;
        tx.delete(jobs, &key)?;
        Ok(job.map(|job| job.to_vec()))
    })
}

/// Runs the example in a temporary directory.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    const JOBS: u64 = 100;
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path().join("data"), Settings::default())?;
    let jobs = db.keyspace("jobs", KeyspaceSettings::default())?;
    for number in 0..JOBS {
        jobs.put(tuple::encode(&(WAITING, number)), format!("job {number}"))?;
    }
    let mut done = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            while let Some(job) = take(&db, &jobs)? {
                done.push(job);
            }
            Ok::<_, Error>(done)
        };
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().expect("a worker panicked")?);
        }
        Ok::<_, Error>(all)
    })?;
    done.sort();
    assert!(done.windows(2).all(|two| two[0] != two[1]), "no job was done twice");
    assert_eq!(done.len() as u64, JOBS, "no job was lost");
    Ok(())
}
