package esker_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"esker"
)

var small = esker.Settings{"segment_bytes": "1MiB", "memory_bytes": "16MiB"}

func open(t *testing.T) (*esker.Db, *esker.Keyspace) {
	t.Helper()
	db, err := esker.Open(t.TempDir(), small)
	if err != nil {
		t.Fatal(err)
	}
	users, err := db.Keyspace("users")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		users.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, users
}

func Example() {
	dir, _ := os.MkdirTemp("", "esker")
	defer os.RemoveAll(dir)
	db, err := esker.Open(dir, nil)
	if err != nil {
		panic(err)
	}
	defer db.Close()
	accounts, err := db.Keyspace("accounts")
	if err != nil {
		panic(err)
	}
	defer accounts.Close()

	accounts.Put([]byte("ada"), []byte("100"))
	err = db.Transact(func(tx *esker.Tx) error {
		ada, err := tx.GetForUpdate(accounts, []byte("ada"))
		if err != nil {
			return err
		}
		balance, _ := strconv.Atoi(string(ada))
		if err := tx.Put(accounts, []byte("ada"), []byte(strconv.Itoa(balance-30))); err != nil {
			return err
		}
		return tx.Put(accounts, []byte("bob"), []byte("30"))
	})
	fmt.Println("error:", err)

	scan := accounts.Scan(nil)
	for key, value := range scan.All() {
		fmt.Printf("%s: %s\n", key, value)
	}
	fmt.Println("error:", scan.Err())
	// Output:
	// error: <nil>
	// ada: 70
	// bob: 30
	// error: <nil>
}

func TestAMissingKeyIsNilAndAnEmptyValueIsNot(t *testing.T) {
	_, users := open(t)
	for _, key := range [][]byte{{}, []byte("ada")} {
		if value, err := users.Get(key); value != nil || err != nil {
			t.Fatal(value, err)
		}
		if err := users.Put(key, nil); err != nil {
			t.Fatal(err)
		}
		if value, err := users.Get(key); value == nil || len(value) != 0 || err != nil {
			t.Fatal(value, err)
		}
		if err := users.Delete(key); err != nil {
			t.Fatal(err)
		}
		if value, err := users.Get(key); value != nil || err != nil {
			t.Fatal(value, err)
		}
	}
}

func TestAScanCanEndEarly(t *testing.T) {
	_, users := open(t)
	for number := range 100 {
		if err := users.Put(fmt.Appendf(nil, "%03d", number), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	var keys []string
	scan := users.Scan([]byte("01"))
	for key := range scan.All() {
		keys = append(keys, string(key))
		if len(keys) == 3 {
			break
		}
	}
	if got := strings.Join(keys, " "); got != "010 011 012" || scan.Err() != nil {
		t.Fatal(got, scan.Err())
	}
}

func TestErrorsHaveATextAndANumber(t *testing.T) {
	_, err := esker.Open(t.TempDir(), esker.Settings{"memory_byte": "1GiB"})
	var failure *esker.Error
	if !errors.As(err, &failure) || !strings.Contains(failure.Text, "memory_bytes") {
		t.Fatal(err)
	}
	if failure.IsTransient() {
		t.Fatal(failure)
	}
}

func TestAClosedDatabaseFails(t *testing.T) {
	db, err := esker.Open(t.TempDir(), small)
	if err != nil {
		t.Fatal(err)
	}
	users, err := db.Keyspace("users")
	if err != nil {
		t.Fatal(err)
	}
	defer users.Close()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := users.Put([]byte("ada"), nil); err == nil {
		t.Fatal("put into a closed database")
	}
	scan := users.Scan(nil)
	for range scan.All() {
		t.Fatal("an entry of a closed database")
	}
	if scan.Err() == nil {
		t.Fatal("a scan of a closed database")
	}
	if err := db.Transact(func(*esker.Tx) error { return nil }); err == nil {
		t.Fatal("a transaction in a closed database")
	}
}

func TestAnErrorRollsBack(t *testing.T) {
	db, users := open(t)
	no := errors.New("no")
	err := db.Transact(func(tx *esker.Tx) error {
		if err := tx.Put(users, []byte("ada"), []byte("1")); err != nil {
			return err
		}
		return no
	})
	if !errors.Is(err, no) {
		t.Fatal(err)
	}
	if value, err := users.Get([]byte("ada")); value != nil || err != nil {
		t.Fatal(value, err)
	}
}

func TestGoroutinesDoNotLoseUpdates(t *testing.T) {
	db, users := open(t)
	add := func(tx *esker.Tx) error {
		value, err := tx.GetForUpdate(users, []byte("n"))
		if err != nil {
			return err
		}
		count, _ := strconv.Atoi(string(value))
		return tx.Put(users, []byte("n"), []byte(strconv.Itoa(count+1)))
	}
	var all sync.WaitGroup
	for range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 50 {
				if err := db.Transact(add); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
	if value, err := users.Get([]byte("n")); string(value) != "200" || err != nil {
		t.Fatal(string(value), err)
	}
}

func TestATransactionThatHasEndedFails(t *testing.T) {
	db, users := open(t)
	var saved *esker.Tx
	if err := db.Transact(func(tx *esker.Tx) error { saved = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := saved.Put(users, []byte("ada"), nil); !errors.Is(err, esker.ErrTxDone) {
		t.Fatal(err)
	}
	if _, err := saved.GetForUpdate(users, []byte("ada")); !errors.Is(err, esker.ErrTxDone) {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = db.Transact(func(tx *esker.Tx) error { saved = tx; panic("no") })
	}()
	if err := saved.Put(users, []byte("ada"), nil); !errors.Is(err, esker.ErrTxDone) {
		t.Fatal(err)
	}
	if value, err := users.Get([]byte("ada")); value != nil || err != nil {
		t.Fatal(value, err)
	}
}

func TestAGoroutineMayOutliveItsTransaction(t *testing.T) {
	db, users := open(t)
	var all sync.WaitGroup
	for range 50 {
		err := db.Transact(func(tx *esker.Tx) error {
			all.Add(1)
			go func() {
				defer all.Done()
				var err error
				for err == nil {
					err = tx.Put(users, []byte("ada"), []byte("1"))
				}
				var failure *esker.Error
				if !errors.Is(err, esker.ErrTxDone) && !errors.As(err, &failure) {
					t.Error(err)
				}
			}()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
}

func TestGoroutinesMayCallWhileOthersClose(t *testing.T) {
	for range 10 {
		db, err := esker.Open(t.TempDir(), small)
		if err != nil {
			t.Fatal(err)
		}
		users, err := db.Keyspace("users")
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				var err error
				for err == nil {
					if err = users.Put([]byte("ada"), []byte("1")); err != nil {
						break
					}
					if _, err = users.Get([]byte("ada")); err != nil {
						break
					}
					var more *esker.Keyspace
					if more, err = db.Keyspace("more"); err == nil {
						more.Close()
						err = db.Transact(func(tx *esker.Tx) error {
							return tx.Put(users, []byte("eve"), nil)
						})
					}
				}
				var failure *esker.Error
				if !errors.As(err, &failure) {
					t.Error(err)
				}
			}()
		}
		users.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
	}
}

func TestTextsWithANulAreRefused(t *testing.T) {
	db, _ := open(t)
	if _, err := db.Keyspace("a\x00b"); err == nil {
		t.Fatal("another keyspace was opened")
	}
	dir := t.TempDir()
	for _, settings := range []esker.Settings{
		{"memory_bytes\x00x": "16MiB"}, {"memory_bytes": "16MiB\x00"},
	} {
		if _, err := esker.Open(dir, settings); err == nil {
			t.Fatal(settings)
		}
	}
	if _, err := esker.Open(dir+"/a\x00b", small); err == nil {
		t.Fatal("another directory was opened")
	}
	if entries, err := os.ReadDir(dir); len(entries) != 0 || err != nil {
		t.Fatal(entries, err)
	}
}

func TestAScanIsUsedOnce(t *testing.T) {
	_, users := open(t)
	if err := users.Put([]byte("ada"), nil); err != nil {
		t.Fatal(err)
	}
	scan := users.Scan(nil)
	count := 0
	for range scan.All() {
		count++
	}
	if count != 1 || scan.Err() != nil {
		t.Fatal(count, scan.Err())
	}
	for range scan.All() {
		t.Fatal("an entry of a scan that has ended")
	}
	if scan.Err() == nil {
		t.Fatal("a scan that has ended was used again")
	}
	closed := users.Scan(nil)
	closed.Close()
	closed.Close()
	for range closed.All() {
		t.Fatal("an entry of a scan that was closed")
	}
	if closed.Err() == nil {
		t.Fatal("a scan that was closed was used")
	}
}
