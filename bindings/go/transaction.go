package esker

// #include <esker.h>
import "C"

import "errors"

// attemptsMax is how often Transact runs its function at most.
const attemptsMax = 100

// Tx is a transaction over all keyspaces of a database.
type Tx struct {
	tx *C.esker_transaction
}

// Transact runs work in a transaction, and commits it. After an error it rolls back. If the error is
// transient, as after a conflict, work runs again, so it should change nothing but the database.
func (db *Db) Transact(work func(tx *Tx) error) error {
	var err error
	for attempt := 0; attempt < attemptsMax; attempt++ {
		err = db.attempt(work)
		var failure *Error
		if !errors.As(err, &failure) || !failure.IsTransient() {
			return err
		}
	}
	return err
}

func (db *Db) attempt(work func(tx *Tx) error) error {
	var failed *C.esker_error
	tx := &Tx{}
	if err := check(C.esker_begin(db.db, 0, 0, &tx.tx, &failed), failed); err != nil {
		return err
	}
	// This also rolls back.
	defer C.esker_transaction_free(tx.tx)
	if err := work(tx); err != nil {
		return err
	}
	return check(C.esker_commit(tx.tx, &failed), failed)
}

// GetForUpdate returns the value of a key, or nil, and excludes that others change it before the commit.
func (tx *Tx) GetForUpdate(keyspace *Keyspace, key []byte) ([]byte, error) {
	var failed *C.esker_error
	var found C.esker_bytes
	cKey, keyLen := bytes(key)
	status := C.esker_transaction_get_for_update(
		tx.tx, keyspace.keyspace, cKey, keyLen, &found, &failed)
	if status != C.ESKER_OK {
		return nil, check(status, failed)
	}
	return taken(&found), nil
}

// Put sets a key to a value when the transaction commits.
func (tx *Tx) Put(keyspace *Keyspace, key, value []byte) error {
	var failed *C.esker_error
	cKey, keyLen := bytes(key)
	cValue, valueLen := bytes(value)
	return check(C.esker_transaction_put(
		tx.tx, keyspace.keyspace, cKey, keyLen, cValue, valueLen, &failed), failed)
}
