//! Range deletes for peers that have none: the range is read, and each key found is deleted.
//!
//! The deletes go into the same batch as the rest, so the batch is as atomic as ever towards readers
//! and crashes. It is not towards other writers: a key that one of them puts after the range was
//! read stays. A real range delete would not let that happen, and would cost nothing by the key.

use esker_api::{KeyRange, Ordered, WriteBatch};
use esker_base::{Kind, Result};

/// Takes the writes of a batch in order.
pub(crate) trait Sink {
    fn put(&mut self, key: &[u8], value: &[u8]);
    fn delete(&mut self, key: &[u8]);
}

/// Hands the writes of `batch` to `sink`, each range as the keys that `store` and the batch itself
/// have in it.
pub(crate) fn spell_out(
    batch: &WriteBatch,
    store: &dyn Ordered,
    sink: &mut dyn Sink,
) -> Result<()> {
    let mut put_before: Vec<&[u8]> = Vec::new();
    for entry in batch.iter() {
        match entry.kind {
            Kind::Put => {
                sink.put(entry.key, entry.value);
                if batch.has_range_delete() {
                    put_before.push(entry.key);
                }
            }
            Kind::Delete => sink.delete(entry.key),
            Kind::Merge | Kind::Combined | Kind::Separated | Kind::ExpiringPut => {
                unreachable!("`check::entries` refuses them")
            }
            Kind::RangeDelete => {
                let range = KeyRange::deleted(entry.key, entry.value);
                put_before
                    .iter()
                    .filter(|key| range.contains(key))
                    .for_each(|key| sink.delete(key));
                let mut cursor = store.cursor(range)?;
                cursor.seek_first()?;
                while let Some((key, _)) = cursor.current() {
                    sink.delete(key);
                    cursor.next()?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_api::Kv;
    use esker_base::KeyspaceId;
    use esker_workload::Model;

    #[derive(Default)]
    struct Said(Vec<String>);

    impl Sink for Said {
        fn put(&mut self, key: &[u8], _: &[u8]) {
            self.0.push(format!("+{}", key.escape_ascii()));
        }
        fn delete(&mut self, key: &[u8]) {
            self.0.push(format!("-{}", key.escape_ascii()));
        }
    }

    #[test]
    fn a_range_deletes_what_is_stored_and_what_the_batch_put_before() {
        let store = Model::new();
        for key in [b"a", b"b", b"c"] {
            store.put(key, b"").unwrap();
        }
        let mut batch = WriteBatch::new();
        batch.put(KeyspaceId::DEFAULT, b"bb", b"");
        batch.put(KeyspaceId::DEFAULT, b"x", b"");
        batch.delete_range(KeyspaceId::DEFAULT, b"b"..b"c");
        batch.put(KeyspaceId::DEFAULT, b"b", b"");
        let mut said = Said::default();
        spell_out(&batch, &store, &mut said).unwrap();
        assert_eq!(said.0, ["+bb", "+x", "-bb", "-b", "+b"]);
    }
}
