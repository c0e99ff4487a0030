//! Which database a pool belongs to: two words, the second with every bit of the first inverted.

use super::Pool;
use super::examine::word;
use crate::format::{OWNER_AT, OWNER_COMPLEMENT_AT};
use esker_base::Result;

impl Pool {
    /// The database that the pool belongs to.
    pub fn owner(&self) -> Option<u64> {
        *self.owner.lock()
    }

    /// Whether the pool belongs to `database`, as opposed to nobody. Fails if it is another's.
    pub fn belongs_to(&self, database: u64) -> Result<bool> {
        match self.owner() {
            Some(found) if found == database => Ok(true),
            Some(found) => Err(self.refused(format!(
                "it belongs to another database, {found:016x}, whose newest writes may be in it; this \
                 one is {database:016x}: give each database a pool of its own. If the other one was \
                 deleted, remove the file and make a new pool with `esker pmem create`"
            ))),
            None => Ok(false),
        }
    }

    /// Gives the pool to a database, durably, unless it is that database's already.
    pub fn claim(&self, database: u64) -> Result<()> {
        assert!(database != 0, "a database's identity is not zero");
        if self.belongs_to(database)? {
            return Ok(());
        }
        self.check_writable()?;
        let mut owner = self.owner.lock();
        self.store_word(OWNER_COMPLEMENT_AT, !database);
        self.fence();
        self.store_word(OWNER_AT, database);
        self.fence();
        *owner = Some(database);
        Ok(())
    }

    /// Takes the pool to be the database's if its owner is damaged and one of the two words that say
    /// it names that database. Says whether it is the database's.
    pub fn presume_owner(&self, database: u64) -> bool {
        let mut owner = self.owner.lock();
        let at = |at| word(&*self.region, at);
        // Without an owner there is nothing to presume: a claim that was cut off left its complement.
        let names =
            at(OWNER_AT) == database || (at(OWNER_AT) != 0 && at(OWNER_COMPLEMENT_AT) == !database);
        if owner.is_none() && names {
            *owner = Some(database);
        }
        *owner == Some(database)
    }
}
