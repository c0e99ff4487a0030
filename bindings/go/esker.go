// Package esker is Esker for Go, over the C library libesker.
//
// It has what most programs start with: keyspaces, puts, gets, scans and transactions. The rest of
// esker.h can be added in the same way.
//
// Goroutines may share a Db and its keyspaces, and close them while others call: those then get an error.
// A Scan is used by one goroutine at once.
package esker

// #cgo pkg-config: libesker
// #include <esker.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"
)

// Error is a failure of the library: a stable number, and a text for people.
type Error struct {
	Status int
	Text   string
}

func (e *Error) Error() string {
	return fmt.Sprintf("esker: %s", e.Text)
}

// IsTransient reports whether the same transaction may succeed if it runs again.
func (e *Error) IsTransient() bool {
	return bool(C.esker_is_transient(C.int32_t(e.Status)))
}

// check makes an error of what a call has returned, and frees the library's. That a key was not found
// is an answer and no error. Callers keep the status first: Go does not order a call among its arguments.
func check(status uint32, failed *C.esker_error) error {
	if status == C.ESKER_OK || status == C.ESKER_NOT_FOUND {
		return nil
	}
	defer C.esker_error_free(failed)
	return &Error{Status: int(status), Text: C.GoString(C.esker_error_text(failed))}
}

// cString is a text for C, to be freed. C would take a text with a NUL for a shorter one.
func cString(what, text string) (*C.char, error) {
	if strings.ContainsRune(text, 0) {
		why := fmt.Sprintf("%s %q has a NUL character: leave it out", what, text)
		return nil, &Error{Status: C.ESKER_INVALID_ARGUMENT, Text: why}
	}
	return C.CString(text), nil
}

// bytes is a slice as C has it. The library reads it during the call only.
func bytes(slice []byte) (*C.uint8_t, C.size_t) {
	return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(slice))), C.size_t(len(slice))
}

// taken copies bytes of the library, and frees them. It is not nil.
func taken(found *C.esker_bytes) []byte {
	defer C.esker_bytes_free(found)
	return append([]byte{}, unsafe.Slice((*byte)(found.data), int(found.len))...)
}

// Settings are those of a database, by name, such as "memory_bytes" and "256MiB".
type Settings map[string]string

// Db is an open database.
type Db struct {
	// Held by each call, and alone by Close, which frees what they use.
	mu sync.RWMutex
	db *C.esker_db
}

// Open opens the database in a directory, or creates it. Settings may be nil for the defaults.
func Open(dir string, settings Settings) (*Db, error) {
	var failed *C.esker_error
	var of *C.esker_settings
	status := C.esker_settings_new(&of, &failed)
	if err := check(status, failed); err != nil {
		return nil, err
	}
	defer C.esker_settings_free(of)
	for name, value := range settings {
		if err := set(of, name, value); err != nil {
			return nil, err
		}
	}
	cDir, err := cString("the directory", dir)
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(cDir))
	db := &Db{}
	status = C.esker_open(cDir, of, &db.db, &failed)
	if err := check(status, failed); err != nil {
		return nil, err
	}
	return db, nil
}

func set(of *C.esker_settings, name, value string) error {
	cName, err := cString("the setting", name)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(cName))
	cValue, err := cString("the value of "+name, value)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(cValue))
	var failed *C.esker_error
	status := C.esker_settings_set(of, cName, cValue, &failed)
	return check(status, failed)
}

// Close waits for calls in progress, flushes what is in memory, and releases the files. Further calls
// fail.
func (db *Db) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	var failed *C.esker_error
	open := db.db
	db.db = nil
	status := C.esker_close(open, &failed)
	return check(status, failed)
}

// Keyspace is a named, ordered set of keys. Close it when it is no longer needed.
type Keyspace struct {
	// Held by each call, and alone by Close, which frees what they use.
	mu       sync.RWMutex
	keyspace *C.esker_keyspace
}

// Keyspace opens the keyspace of this name, or creates it.
func (db *Db) Keyspace(name string) (*Keyspace, error) {
	cName, err := cString("the keyspace", name)
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(cName))
	db.mu.RLock()
	defer db.mu.RUnlock()
	var failed *C.esker_error
	made := &Keyspace{}
	status := C.esker_keyspace_create(db.db, cName, nil, &made.keyspace, &failed)
	if err := check(status, failed); err != nil {
		return nil, err
	}
	return made, nil
}

// Close waits for calls in progress, and frees the handle. The keyspace stays.
func (k *Keyspace) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	C.esker_keyspace_free(k.keyspace)
	k.keyspace = nil
}

// Put sets a key to a value.
func (k *Keyspace) Put(key, value []byte) error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var failed *C.esker_error
	cKey, keyLen := bytes(key)
	cValue, valueLen := bytes(value)
	status := C.esker_put(k.keyspace, cKey, keyLen, cValue, valueLen, &failed)
	return check(status, failed)
}

// Get returns the value of a key, or nil if the key does not exist.
func (k *Keyspace) Get(key []byte) ([]byte, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var failed *C.esker_error
	var found C.esker_bytes
	cKey, keyLen := bytes(key)
	status := C.esker_get(k.keyspace, cKey, keyLen, &found, &failed)
	if status != C.ESKER_OK {
		return nil, check(status, failed)
	}
	return taken(&found), nil
}

// Delete deletes a key, whether it exists or not.
func (k *Keyspace) Delete(key []byte) error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var failed *C.esker_error
	cKey, keyLen := bytes(key)
	status := C.esker_delete(k.keyspace, cKey, keyLen, &failed)
	return check(status, failed)
}
