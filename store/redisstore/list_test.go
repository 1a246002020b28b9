package redisstore

import (
	"testing"

	"github.com/cairn-agents/cairn/store/driver"
)

// The sessions of a user that are current, or archived, have an index of their own: a list reads no others.
func TestIndexOfAList(t *testing.T) {
	t.Parallel()
	current, archived := new(false), new(true)
	for _, c := range []struct {
		q    driver.SessionQuery
		name string
		rest bool
	}{
		{driver.SessionQuery{}, "all", false},
		{driver.SessionQuery{Archived: current}, "all", true},
		{driver.SessionQuery{UserID: "u"}, "user:u", false},
		{driver.SessionQuery{UserID: "u", Archived: current}, "current:u", false},
		{driver.SessionQuery{UserID: "u", Archived: archived}, "archived:u", false},
		{driver.SessionQuery{UserID: "u", Archived: archived, RootsOnly: true}, "archived:u", false},
		{driver.SessionQuery{UserID: "u", RootsOnly: true}, "user:u", true},
		{driver.SessionQuery{Tenant: new("acme")}, "tenant:acme", false},
		{driver.SessionQuery{Tenant: new("acme"), Agent: "a", Archived: current}, "tenant:acme", true},
		{driver.SessionQuery{Tenant: new("acme"), UserID: "acme::u"}, "user:acme::u", true},
		{driver.SessionQuery{Tenant: new(""), Agent: "a"}, "agent:a", true},
		{driver.SessionQuery{Tenant: new("")}, "all", true},
		{driver.SessionQuery{ThreadID: "t", Archived: archived}, "thread:t", true},
		{driver.SessionQuery{UserID: "u", ThreadID: "t", Archived: archived}, "thread:t", true},
	} {
		if name, rest := sessionIndex(&c.q); name != c.name || rest != c.rest {
			t.Errorf("%+v: index %q and more conditions %t, want %q and %t", c.q, name, rest, c.name, c.rest)
		}
	}
}
