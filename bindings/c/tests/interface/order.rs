//! Handles are freed in any order.

use crate::cursors::filled;
use crate::support::*;
use crate::transactions::{begin, tx_put};
use esker_c::batch::*;
use esker_c::cursor::*;
use esker_c::keyspace::*;
use esker_c::open::*;
use esker_c::snapshot::*;
use esker_c::transaction::*;
use std::ptr::null;

/// Handles of all kinds, each of which depends on others.
struct Handles {
    db: Option<Box<esker_db>>,
    keyspace: Option<Box<esker_keyspace>>,
    snapshot: Option<Box<esker_snapshot>>,
    cursor: Option<Box<esker_cursor>>,
    transaction: Option<Box<esker_transaction>>,
    transaction_cursor: Option<Box<esker_cursor>>,
    batch: Option<Box<esker_batch>>,
}

const KINDS: usize = 7;

impl Handles {
    fn of(db: Box<esker_db>) -> Self {
        let users = keyspace(&db, "users");
        filled(&users);
        let transaction = begin(&db, 0);
        tx_put(&transaction, &users, "own", "write").unwrap();
        let (ks, tx) = (Some(&*users), Some(&*transaction));
        let mut cursor = make!(esker_cursor_range, ks, None, null(), 0, null(), 0).unwrap();
        call!(esker_cursor_first, Some(&mut cursor)).unwrap();
        let mut of_transaction =
            make!(esker_transaction_cursor_range, tx, ks, null(), 0, null(), 0).unwrap();
        call!(esker_cursor_last, Some(&mut of_transaction)).unwrap();
        let mut batch = make!(esker_batch_new).unwrap();
        call!(esker_batch_delete, Some(&mut batch), ks, b"0".as_ptr(), 1).unwrap();
        Handles {
            snapshot: Some(make!(esker_snapshot_new, Some(&db)).unwrap()),
            db: Some(db),
            keyspace: Some(users),
            cursor: Some(cursor),
            transaction: Some(transaction),
            transaction_cursor: Some(of_transaction),
            batch: Some(batch),
        }
    }

    fn free(&mut self, kind: usize) {
        match kind {
            0 => call!(esker_close, self.db.take()).unwrap(),
            1 => esker_keyspace_free(self.keyspace.take()),
            2 => esker_snapshot_free(self.snapshot.take()),
            3 => esker_cursor_free(self.cursor.take()),
            4 => esker_transaction_free(self.transaction.take()),
            5 => esker_cursor_free(self.transaction_cursor.take()),
            _ => esker_batch_free(self.batch.take()),
        }
    }

    /// Uses each handle that is left. What depends on a closed database says so.
    fn use_all(&mut self) {
        let is_open = self.db.is_some();
        let expect = |outcome: Outcome, is_alive: bool, other: esker_status| {
            let status = status(outcome);
            let expected = if is_alive { ESKER_OK } else { other };
            assert_eq!(status, expected);
        };
        if let Some(users) = &self.keyspace {
            expect(get(users, "000").map(|_| ()), is_open, ESKER_CLOSED);
            if let Some(snapshot) = &self.snapshot {
                let both = (Some(&**snapshot), Some(&**users));
                let value = take!(esker_snapshot_get, both.0, both.1, b"000".as_ptr(), 3);
                expect(value.map(|_| ()), is_open, ESKER_CLOSED);
            }
            if let Some(transaction) = &self.transaction {
                expect(tx_put(transaction, users, "own", ""), is_open, ESKER_CLOSED);
            }
        }
        if let Some(cursor) = &mut self.cursor {
            expect(call!(esker_cursor_first, Some(cursor)), is_open, ESKER_CLOSED);
        }
        if let Some(cursor) = &mut self.transaction_cursor {
            let outcome = call!(esker_cursor_last, Some(cursor));
            let other = if is_open { ESKER_TRANSACTION_ENDED } else { ESKER_CLOSED };
            expect(outcome, is_open && self.transaction.is_some(), other);
        }
        if let (Some(db), Some(batch)) = (&self.db, &self.batch) {
            call!(esker_c::database::esker_write, Some(&**db), Some(&**batch)).unwrap();
        }
    }
}

#[test]
fn any_order_of_frees_is_safe() {
    // Each handle is freed before and after each other one.
    let orders = (0..KINDS).flat_map(|start| {
        [1, 2, 3, 4, 5, 6].map(|step| (0..KINDS).map(move |at| (start + at * step) % KINDS))
    });
    let dir = tempfile::tempdir().unwrap();
    for (number, order) in orders.enumerate() {
        // A database for some orders each, so that it stays small.
        let mut handles = Handles::of(open(&dir.path().join((number % 4).to_string())));
        for kind in order {
            handles.free(kind);
            handles.use_all();
        }
    }
}
