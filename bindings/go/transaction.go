package esker

// #include <esker.h>
import "C"

import (
	"errors"
	"math/rand"
	"sync"
	"time"
)

const (
	// attemptsMax is how often Transact runs its function at most.
	attemptsMax = 100
	// lockTimeoutsMax is how often it does after a timeout: each has already waited for a second.
	lockTimeoutsMax = 3
	pauseMax        = 5 * time.Millisecond
)

// ErrTxDone is what a call of a Tx returns once its Transact has returned.
var ErrTxDone = errors.New("esker: the transaction has ended: use it within the function of Transact")

// Tx is a transaction over all keyspaces of a database. It ends with the function that got it.
type Tx struct {
	// A goroutine may still call when Transact returns. C lets one thread at once use a transaction.
	mu sync.Mutex
	tx *C.esker_transaction
}

// Transact runs work in a transaction, and commits it. After an error it rolls back. If the error is
// transient, as after a conflict, work runs again, so it should change nothing but the database.
func (db *Db) Transact(work func(tx *Tx) error) error {
	lockTimeouts := 0
	for attempt := 1; ; attempt++ {
		err := db.attempt(work)
		var failure *Error
		if !errors.As(err, &failure) || !failure.IsTransient() {
			return err
		}
		if failure.Status == C.ESKER_LOCK_TIMEOUT {
			lockTimeouts++
		}
		if attempt == attemptsMax || lockTimeouts == lockTimeoutsMax {
			return err
		}
		longest := min(pauseMax, 100*time.Microsecond<<min(attempt, 10))
		time.Sleep(time.Duration(rand.Int63n(int64(longest))))
	}
}

func (db *Db) attempt(work func(tx *Tx) error) error {
	tx, err := db.begin()
	if err != nil {
		return err
	}
	defer tx.free()
	if err := work(tx); err != nil {
		return err
	}
	return tx.commit()
}

func (db *Db) begin() (*Tx, error) {
	db.mu.RLock()
	defer db.mu.RUnlock()
	var failed *C.esker_error
	tx := &Tx{}
	status := C.esker_begin(db.db, 0, 0, &tx.tx, &failed)
	if err := check(status, failed); err != nil {
		return nil, err
	}
	return tx, nil
}

func (tx *Tx) commit() error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	var failed *C.esker_error
	status := C.esker_commit(tx.tx, &failed)
	return check(status, failed)
}

// free also rolls back.
func (tx *Tx) free() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	C.esker_transaction_free(tx.tx)
	tx.tx = nil
}

// GetForUpdate returns the value of a key, or nil, and excludes that others change it before the commit.
func (tx *Tx) GetForUpdate(keyspace *Keyspace, key []byte) ([]byte, error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	keyspace.mu.RLock()
	defer keyspace.mu.RUnlock()
	if tx.tx == nil {
		return nil, ErrTxDone
	}
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
	tx.mu.Lock()
	defer tx.mu.Unlock()
	keyspace.mu.RLock()
	defer keyspace.mu.RUnlock()
	if tx.tx == nil {
		return ErrTxDone
	}
	var failed *C.esker_error
	cKey, keyLen := bytes(key)
	cValue, valueLen := bytes(value)
	status := C.esker_transaction_put(
		tx.tx, keyspace.keyspace, cKey, keyLen, cValue, valueLen, &failed)
	return check(status, failed)
}
