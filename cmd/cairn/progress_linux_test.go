package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// At a terminal, commands that remove many sessions show how far they are, and replace that by their result.
func TestRemovalsShowTheirProgress(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	st, err := sqlitestore.Open(b.env["CAIRN_DB"], nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		for _, s := range []*cairn.Session{
			{ID: fmt.Sprint("ann-", i), Agent: "bot", UserID: "ann"},
			{ID: fmt.Sprint("old-", i), Agent: "bot", ExpiresAt: time.Now().Add(-time.Hour)},
		} {
			if _, err := driver.Create(t.Context(), st, s, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args           []string
		progress, then string
	}{
		{[]string{"erase", "--user", "ann", "--yes"}, "\r\x1b[K1 session erased, 0 failed", "\r\x1b[KErased 3 sessions of user ann.\r\n"},
		{[]string{"sweep"}, "\r\x1b[K1 expired, 0 purged, 0 trimmed, 0 failed", "\r\x1b[KDETECTED"},
	} {
		cmd, _, shown := b.startAt(t, test.args...)
		readUntil(t, shown, test.progress)
		readUntil(t, shown, test.then)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", test.args, err)
		}
	}
}
