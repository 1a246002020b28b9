package driver_test

import (
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

func TestSweepAt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	in := func(hours float64) time.Time { return now.Add(time.Duration(hours * float64(time.Hour))) }
	var never time.Time
	const minute = 1. / 60
	for name, test := range map[string]struct {
		updated, expires float64 // in hours from now; expires 0 for never
		ttl              float64
		held             float64 // by a lease
		want             time.Time
	}{
		"never":                                 {updated: -1, want: never},
		"idle":                                  {updated: -1, ttl: 2, want: in(1)},
		"idle for too long":                     {updated: -3, ttl: 2, want: in(-1)},
		"fixed time":                            {updated: -1, expires: 5, want: in(5)},
		"fixed time that has passed":            {updated: -1, expires: -5, ttl: 2, want: in(-5)},
		"held for long":                         {updated: -3, ttl: 2, held: 9, want: in(2)},
		"held for a while":                      {updated: -3, ttl: 2, held: 1, want: in(1)},
		"held, until a fixed time":              {updated: -3, ttl: 2, expires: 1, held: 9, want: in(1)},
		"held past a fixed time":                {updated: -3, expires: -1, held: 9, want: in(minute)},
		"held for an instant past a fixed time": {updated: -3, expires: -1, held: minute / 2, want: in(minute / 2)},
	} {
		s := &cairn.Session{ID: "s", RootID: "s", Status: cairn.SessionActive, UpdatedAt: in(test.updated),
			TTL: cairn.Duration(in(test.ttl).Sub(now)), Lease: cairn.Lease{Until: in(test.held)}}
		if test.expires != 0 {
			s.ExpiresAt = in(test.expires)
		}
		if test.held == 0 {
			s.Status = cairn.SessionCompleted
		}
		got := driver.SweepAt(now, s)
		if !got.Equal(test.want) {
			t.Errorf("%s: looked at %v, want %v", name, got, test.want)
		}
		if expiry := s.Expiry(); expiry.After(now) && !got.After(now) {
			t.Errorf("%s: looked at again and again", name)
		}
		if s.ID = "child"; !driver.SweepAt(now, s).IsZero() {
			t.Errorf("%s: a session that is not a root is looked at", name)
		}
	}
}
