//! What a database and its files hold.

use esker_lsm::Db;
use esker_storage::Storage;
use std::collections::BTreeMap;

/// Keys, each behind the name of its keyspace and a slash.
pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

pub fn pairs(db: &Db) -> Pairs {
    let mut all = Pairs::new();
    for keyspace in db.keyspaces() {
        let keyspace = db.open_keyspace(&keyspace.name).unwrap();
        for pair in db.range(&keyspace, ..) {
            let (key, value) = pair.unwrap();
            all.insert([keyspace.name().as_bytes(), b"/", &key].concat(), value.into_vec());
        }
    }
    all
}

pub fn read(storage: &dyn Storage, name: &str) -> Vec<u8> {
    let file = storage.open(name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}
