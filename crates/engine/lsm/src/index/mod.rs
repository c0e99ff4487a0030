//! Secondary indexes: what each write to an indexed keyspace adds to its batch.
//!
//! An index is a keyspace of its own. A put or delete of a row carries the index entries of the old
//! value as deletes, and those of the new value as puts, in the same batch. `db::index` has the
//! handles, and builds an index over rows that exist already. `docs/internals/indexes.md` has the
//! arguments.
//!
//! Invariants:
//! 1. A writer holds the stripes of its rows from before it reads their old values until its batch is
//!    visible. So two writers of a row never both remove the entries of the same old value.
//! 2. A writer holds the stripes of the keys that it adds to or removes from unique indexes, taken
//!    after those of rows, from before it checks them until its batch is visible.
//! 3. Every seqno above that of an index's epoch belongs to a batch that carries its entries
//!    (`registry`).
//! 4. An index that is ready has exactly the entries of the rows, at every seqno from when it was.
//! 5. A keyspace with an index that has no function takes no writes.

pub(crate) mod format;
pub(crate) mod index_keys;
pub(crate) mod maintain;
pub(crate) mod registry;
pub(crate) mod settings;
pub(crate) mod stripes;
