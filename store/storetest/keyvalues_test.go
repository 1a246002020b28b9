package storetest_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/storetest"
)

// keyValues is the database of a documentStore: keys with values and their versions, from 1.
type keyValues struct {
	mu     sync.Mutex
	values map[string]versioned
	// failAt, if not 0, is the number of the write that fails, counted from now on.
	failAt int
	failed bool
}

type versioned struct {
	raw     []byte
	version int64
}

// get returns a value and its version, which is 0 if there is none.
func (kv *keyValues) get(key string) ([]byte, int64) {
	kv.mu.Lock()
	defer kv.mu.Unlock()
	v := kv.values[key]
	return v.raw, v.version
}

// put writes a value if the existing one has a version; 0 means that there is none.
func (kv *keyValues) put(key string, raw []byte, version int64) (done bool, err error) {
	return kv.write(key, version, func() { kv.values[key] = versioned{raw, version + 1} })
}

// delete removes a value if it has a version.
func (kv *keyValues) delete(key string, version int64) (done bool, err error) {
	return kv.write(key, version, func() { delete(kv.values, key) })
}

func (kv *keyValues) write(key string, version int64, do func()) (done bool, err error) {
	kv.mu.Lock()
	defer kv.mu.Unlock()
	if kv.failAt > 0 {
		if kv.failAt--; kv.failAt == 0 {
			kv.failed = true
			return false, cairn.Errorf(cairn.ErrUnavailable, "the database is away")
		}
	}
	if kv.values[key].version != version {
		return false, nil
	}
	do()
	return true, nil
}

// list returns the keys with a prefix.
func (kv *keyValues) list(prefix string) (keys []string) {
	kv.mu.Lock()
	defer kv.mu.Unlock()
	for key := range kv.values {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// A store of some three hundred lines over a database that can compare and set one key passes the suite: the packages
// plan and backend define what a commit means and what a session is.
func TestDocumentStore(t *testing.T) {
	t.Parallel()
	open := func(testing.TB) driver.Store {
		return &documentStore{db: &keyValues{values: map[string]versioned{}}}
	}
	another := func(_ testing.TB, st driver.Store) driver.Store { return &documentStore{db: st.(*documentStore).db} }
	storetest.Run(t, open, &storetest.Options{
		Reopen: func(tb testing.TB, st driver.Store) driver.Store {
			if err := st.Close(); err != nil {
				tb.Error(err)
			}
			return another(tb, st)
		},
		Second: another,
		Fault: func(_ testing.TB, st driver.Store, n int) func() bool {
			db := st.(*documentStore).db
			db.mu.Lock()
			defer db.mu.Unlock()
			db.failAt, db.failed = n, false
			return func() bool {
				db.mu.Lock()
				defer db.mu.Unlock()
				db.failAt = 0
				return db.failed
			}
		},
		Brief: !testenv.Soak(),
	})
}
