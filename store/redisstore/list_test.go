package redisstore

import (
	"testing"

	"github.com/cairn-agents/cairn/store"
)

// The sessions of a user that are current, or archived, have an index of their own: a list reads no others.
func TestIndexOfAList(t *testing.T) {
	t.Parallel()
	current, archived := new(false), new(true)
	for _, c := range []struct {
		q    store.SessionQuery
		name string
		rest bool
	}{
		{store.SessionQuery{}, "all", false},
		{store.SessionQuery{Archived: current}, "all", true},
		{store.SessionQuery{UserID: "u"}, "user:u", false},
		{store.SessionQuery{UserID: "u", Archived: current}, "current:u", false},
		{store.SessionQuery{UserID: "u", Archived: archived}, "archived:u", false},
		{store.SessionQuery{UserID: "u", Archived: archived, RootsOnly: true}, "archived:u", false},
		{store.SessionQuery{UserID: "u", RootsOnly: true}, "user:u", true},
		{store.SessionQuery{ThreadID: "t", Archived: archived}, "thread:t", true},
		{store.SessionQuery{UserID: "u", ThreadID: "t", Archived: archived}, "thread:t", true},
	} {
		if name, rest := sessionIndex(&c.q); name != c.name || rest != c.rest {
			t.Errorf("%+v: index %q and more conditions %t, want %q and %t", c.q, name, rest, c.name, c.rest)
		}
	}
}
