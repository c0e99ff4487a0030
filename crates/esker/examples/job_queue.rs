//! A queue that survives crashes: each job is taken by one worker, in order.
//!
//! cargo run -p esker --example job_queue

use esker::{
    Db, Error, KeyRange, Settings, TransactionDb, TransactionOptions, Transactional, tuple,
};

/// Jobs that wait, by number: `("waiting", number)`.
const WAITING: &str = "waiting";

/// Takes the oldest job. `None` if none waits.
fn take(queue: &TransactionDb<Db>) -> Result<Option<Vec<u8>>, Error> {
    let jobs = queue.keyspace("jobs")?;
    loop {
        let mut transaction = queue.begin(&TransactionOptions::default())?;
        let waiting = KeyRange::prefix(tuple::encode(&(WAITING,)));
        let mut cursor = transaction.cursor(jobs, waiting)?;
        cursor.seek_first()?;
        let Some(key) = cursor.current().map(|(key, _)| key.to_vec()) else { return Ok(None) };
        drop(cursor);
        // The lock keeps other workers from this job. It is still there unless one was faster.
        let taken = transaction.get_for_update(jobs, &key).and_then(|job| {
            let Some(job) = job else { return Ok(None) };
            transaction.delete(jobs, &key)?;
            transaction.commit()?;
            Ok(Some(job.to_vec()))
        });
        match taken {
            Ok(Some(job)) => return Ok(Some(job)),
            Ok(None) => {}
            Err(error) if error.is_transient() => {}
            Err(error) => return Err(error),
        }
    }
}

/// Runs the example in a temporary directory.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    const JOBS: u64 = 100;
    let dir = tempfile::tempdir()?;
    let queue = TransactionDb::new(Db::open(dir.path().join("data"), Settings::default())?);
    let jobs = queue.keyspace("jobs")?;
    for number in 0..JOBS {
        let mut put = queue.begin(&TransactionOptions::default())?;
        put.put(jobs, &tuple::encode(&(WAITING, number)), format!("job {number}").as_bytes())?;
        put.commit()?;
    }
    let mut done = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            while let Some(job) = take(&queue)? {
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
