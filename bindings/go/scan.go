package esker

// #include <esker.h>
import "C"

import (
	"errors"
	"iter"
	"unsafe"
)

var errScanDone = errors.New("esker: the scan has ended or was closed: begin another")

// Scan iterates over entries at a snapshot. After the loop, Err says whether it has read all.
type Scan struct {
	cursor *C.esker_cursor
	err    error
}

// Scan iterates over the entries whose keys start with a prefix, which may be nil for all. The loop over
// All closes it. Without a loop, call Close: compaction keeps what the scan sees.
func (k *Keyspace) Scan(prefix []byte) *Scan {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var failed *C.esker_error
	scan := &Scan{}
	cPrefix, length := bytes(prefix)
	status := C.esker_cursor_prefix(k.keyspace, nil, cPrefix, length, &scan.cursor, &failed)
	scan.err = check(status, failed)
	return scan
}

// All yields keys and values, in ascending order of the keys. It can be used once.
func (s *Scan) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		defer s.Close()
		if s.cursor == nil {
			if s.err == nil {
				s.err = errScanDone
			}
			return
		}
		var failed *C.esker_error
		status := C.esker_cursor_first(s.cursor, &failed)
		for status == C.ESKER_OK {
			if !yield(s.entry()) {
				return
			}
			status = C.esker_cursor_next(s.cursor, &failed)
		}
		s.err = check(status, failed)
	}
}

// Err returns the error that ended the loop, or nil.
func (s *Scan) Err() error {
	return s.err
}

// entry copies the current entry: the cursor lends it until it moves.
func (s *Scan) entry() (key, value []byte) {
	var keyAt, valueAt *C.uint8_t
	var keyLen, valueLen C.size_t
	C.esker_cursor_entry(s.cursor, &keyAt, &keyLen, &valueAt, &valueLen, nil)
	copied := func(at *C.uint8_t, length C.size_t) []byte {
		return append([]byte{}, unsafe.Slice((*byte)(at), int(length))...)
	}
	return copied(keyAt, keyLen), copied(valueAt, valueLen)
}

// Close frees what the scan holds. It may be called more than once.
func (s *Scan) Close() {
	C.esker_cursor_free(s.cursor)
	s.cursor = nil
}
