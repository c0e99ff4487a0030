//! Flush: a sealed MemTable becomes tables in level 0, one a keyspace, all in one file.
//!
//! MemTables are flushed oldest first and one at a time, so edits are installed in the order of the
//! log. Every frame's checksum is verified before its bytes are believed again.

use crate::compaction::{self, Fold};
use crate::inner::Inner;
use crate::log_files::log_file_name;
use crate::manifest::{Change, Edit};
use crate::version::{TableMeta, table_file_name};
use crate::view::View;
use esker_base::{EntryCursor, Hint, KeyspaceId, Result};
use esker_memtable::MemTable;
use esker_table::{TableOptions, TableWriter};
use std::sync::Arc;

/// The tables that a flush wrote.
struct Written {
    file: u64,
    tables: Vec<(KeyspaceId, TableMeta)>,
    bytes: u64,
}

/// Flushes `memtable`, the oldest in the view, and takes it out of the view.
pub(crate) fn flush(inner: &Inner, memtable: &Arc<MemTable>) -> Result<()> {
    let started = inner.clock.now();
    inner.installer.mend()?;
    memtable.verify(&log_file_name(memtable.epoch()))?;
    let written = match write_tables(inner, memtable) {
        Ok(written) => written,
        Err((error, file)) => {
            // Nothing refers to the file: no edit was tried.
            let _ = inner.storage.remove(&table_file_name(file));
            return Err(error);
        }
    };
    crate::read::pass(inner, &inner.view.load(), memtable)?;
    install(inner, memtable, &written)?;
    inner.commit.flushed_through(memtable.last_seqno());
    inner.counters.flushes.add(1);
    inner.counters.flush_bytes.add(written.bytes);
    let took = inner.clock.now().saturating_sub(started);
    inner.stall.flushed(memtable.bytes_used(), took);
    Ok(())
}

fn write_tables(
    inner: &Inner,
    memtable: &Arc<MemTable>,
) -> std::result::Result<Written, (esker_base::Error, u64)> {
    let file_id = inner.installer.next_file();
    write_file(inner, memtable, file_id).map_err(|error| (error, file_id))
}

fn write_file(inner: &Inner, memtable: &Arc<MemTable>, file_id: u64) -> Result<Written> {
    let last_seqno = memtable.last_seqno();
    memtable.build_order(last_seqno);
    let snapshots = inner.snapshots.list();
    let version = inner.view.load().version.clone();
    let mut written = Written { file: file_id, tables: Vec::new(), bytes: 0 };
    let mut file = None;
    for keyspace_id in memtable.keyspaces() {
        // A keyspace that was dropped meanwhile leaves entries that nobody can read.
        let Some(keyspace) = version.keyspaces.get(&keyspace_id) else { continue };
        let file = match &mut file {
            Some(file) => file,
            none => none.insert(inner.storage.create(&table_file_name(file_id), Hint::table(0))?),
        };
        let options = TableOptions {
            keyspace: keyspace_id,
            compression: keyspace.settings.compression,
            filter_bits: keyspace.settings.filter_bits,
            level: 0,
            file_id,
        };
        let mut cursor = memtable.cursor(keyspace_id, last_seqno);
        cursor.seek_first()?;
        let tombstones = memtable.range_tombstones(keyspace_id).unwrap_or_default();
        let writer = TableWriter::new(&mut **file, options);
        let fold = Fold::new(snapshots.clone(), false);
        let tombstones = tombstones.tombstones().collect();
        if let Some(meta) = compaction::write_table(writer, &mut cursor, tombstones, fold)? {
            written.bytes += meta.bytes;
            written.tables.push((keyspace_id, meta));
        }
    }
    if let Some(mut file) = file {
        file.sync()?;
        inner.storage.sync_names()?;
    }
    Ok(written)
}

fn install(inner: &Inner, memtable: &Arc<MemTable>, written: &Written) -> Result<()> {
    let epoch = memtable.epoch();
    let mut was_logged = false;
    inner.install(
        |state| {
            let mut changes = vec![Change::FlushedThrough(memtable.last_seqno())];
            was_logged = state.logs.contains_key(&epoch);
            if was_logged {
                changes.push(Change::RemoveLog(epoch));
            }
            changes.extend(
                written
                    .tables
                    .iter()
                    .filter(|(keyspace, _)| state.version.keyspaces.contains_key(keyspace))
                    .map(|(keyspace, meta)| Change::AddTable {
                        keyspace: *keyspace,
                        level: 0,
                        run: written.file,
                        meta: meta.clone(),
                    }),
            );
            Ok(Edit { changes })
        },
        |view: &mut View| view.memtables.retain(|other| !Arc::ptr_eq(other, memtable)),
    )?;
    if was_logged {
        inner.logs.retire(epoch);
    }
    Ok(())
}
