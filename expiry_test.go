package cairn_test

import (
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

func TestExpiry(t *testing.T) {
	t.Parallel()
	hour := func(n int) time.Time { return time.Date(2026, 11, 1, n, 0, 0, 0, time.UTC) }
	var never time.Time
	// The session was last active at 1 o'clock.
	idle := func(ttl int, expires time.Time) cairn.Session {
		return cairn.Session{Status: cairn.SessionCompleted, UpdatedAt: hour(1), TTL: cairn.Duration(time.Duration(ttl) * time.Hour), ExpiresAt: expires}
	}
	active := func(until time.Time, s cairn.Session) cairn.Session {
		s.Status, s.Lease.Until = cairn.SessionActive, until
		return s
	}
	paused := func(deadline time.Time, s cairn.Session) cairn.Session {
		s.Status, s.NextDeadline = cairn.SessionPaused, deadline
		return s
	}
	done := paused(hour(9), idle(2, never))
	done.Status = cairn.SessionCompleted
	for name, test := range map[string]struct {
		session cairn.Session
		others  []cairn.Session
		want    time.Time
	}{
		"neither TTL nor time":               {idle(0, never), nil, never},
		"TTL":                                {idle(2, never), nil, hour(3)},
		"time":                               {idle(0, hour(5)), nil, hour(5)},
		"TTL before the time":                {idle(2, hour(5)), nil, hour(3)},
		"time before the TTL":                {idle(6, hour(5)), nil, hour(5)},
		"time that has passed":               {idle(6, hour(0)), nil, hour(0)},
		"good lease":                         {active(hour(4), idle(2, never)), nil, hour(4)},
		"good lease, past the time":          {active(hour(4), idle(0, hour(2))), nil, hour(4)},
		"lease that runs out before":         {active(hour(2), idle(2, never)), nil, hour(3)},
		"good lease and never":               {active(hour(4), idle(0, never)), nil, never},
		"waits until later":                  {paused(hour(7), idle(2, hour(5))), nil, hour(7)},
		"waits until earlier":                {paused(hour(2), idle(2, never)), nil, hour(3)},
		"waits for ever":                     {paused(never, idle(2, never)), nil, hour(3)},
		"waits no longer":                    {done, nil, hour(3)},
		"another session active later":       {idle(2, never), []cairn.Session{{UpdatedAt: hour(4)}}, hour(6)},
		"another session active, fixed time": {idle(2, hour(5)), []cairn.Session{{UpdatedAt: hour(4)}}, hour(5)},
		"another session held":               {idle(2, never), []cairn.Session{active(hour(8), idle(0, never))}, hour(8)},
		"another session waits":              {idle(2, hour(2)), []cairn.Session{paused(hour(8), idle(0, never))}, hour(8)},
		"another session's own TTL":          {idle(0, never), []cairn.Session{idle(1, hour(2))}, never},
	} {
		var others []*cairn.Session
		for i := range test.others {
			others = append(others, &test.others[i])
		}
		if got := test.session.Expiry(others...); !got.Equal(test.want) {
			t.Errorf("%s: expires at %v, want %v", name, got, test.want)
		}
	}
}
