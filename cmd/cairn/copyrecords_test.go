package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// Records are copied with their index and their remaining time to live. A copy that was interrupted can be
// repeated. A record that differs is left alone and does not keep others from being copied. Workers are not copied.
func TestRecordsAreCopied(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	from, to := filepath.Join(b.dir, "from.db"), filepath.Join(b.dir, "to.db")
	open := func(file string) *sqlitestore.Store {
		st, err := sqlitestore.Open(file, &sqlitestore.Options{Now: b.now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		return st
	}
	source := open(from)
	put := func(st *sqlitestore.Store, namespace, key, index string, ttl time.Duration) {
		t.Helper()
		w := store.RecordWrite{Namespace: namespace, Key: key, Index: index, Value: json.RawMessage(`1`), Seen: store.AnyVersion, TTL: ttl}
		if _, err := st.Records().Put(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	put(source, store.UserRecords, "account/1", "ada", time.Hour)
	for i := range driver.MaxRecordPage + 1 {
		put(source, "budgets", fmt.Sprintf("key-%03d", i), "", 0)
	}
	put(source, driver.WorkerRecords, "worker", "", time.Hour)
	put(source, "lapsed", "key", "", time.Second)

	check := func(wantCode int, want string, args ...string) {
		t.Helper()
		stdout, stderr, code := b.run("", append([]string{"store", "copy", from, to}, args...)...)
		if stdout+stderr != want || code != wantCode {
			t.Fatalf("exit %d, want %d; printed\n%s%swant\n%s", code, wantCode, stdout, stderr, want)
		}
	}
	check(cli.ExitOK, `SESSION  SESSIONS  MESSAGES  EVENTS  OUTCOME

NAMESPACE  RECORDS  COPIED  DIFFER  OUTCOME
budgets    101      101     0       to be copied
users      1        1       0       to be copied
`, "--dry-run")
	target := open(to)
	put(target, "budgets", "key-000", "", 0)
	check(cli.ExitOK, `SESSION  SESSIONS  MESSAGES  EVENTS  OUTCOME

NAMESPACE  RECORDS  COPIED  DIFFER  OUTCOME
budgets    101      100     0       copied
users      1        1       0       copied
`)
	was, err := source.Records().Get(t.Context(), store.UserRecords, "account/1")
	if err != nil {
		t.Fatal(err)
	}
	is, err := target.Records().Get(t.Context(), store.UserRecords, "account/1")
	if err != nil {
		t.Fatal(err)
	}
	if is.Index != "ada" || !is.ExpiresAt.Equal(was.ExpiresAt) {
		t.Errorf("record %+v was copied as %+v", was, is)
	}
	put(target, store.UserRecords, "account/1", "bob", 0)
	put(source, store.UserRecords, "account/2", "ada", 0)
	for _, args := range [][]string{{"--json", "--dry-run"}, {"--json"}} {
		check(cli.ExitFailure, `{
  "items": [
    {
      "namespace": "budgets",
      "records": 101,
      "copied": 0,
      "differ": 0,
      "outcome": "exists"
    },
    {
      "namespace": "users",
      "records": 2,
      "copied": 1,
      "differ": 1,
      "outcome": "failed",
      "error": {
        "code": "already_exists",
        "message": "record \"account/1\" in \"users\" already exists and differs"
      }
    }
  ]
}
cairn: records of 1 namespace could not be copied
`, args...)
	}
	if _, err := target.Records().Get(t.Context(), store.UserRecords, "account/2"); err != nil {
		t.Errorf("beside a record that differs: %v", err)
	}
	if stdout, _, _ := b.run("", "store", "copy", from, to, "--session", "none", "--dry-run"); strings.Contains(stdout, "NAMESPACE") {
		t.Errorf("a copy of one session prints\n%s", stdout)
	}
}
