package driver_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

func pendingCall(root, id string, at time.Time) *cairn.PendingCall {
	return &cairn.PendingCall{CallRef: cairn.CallRef{ID: id, RootID: root}, CreatedAt: at}
}

func TestCallCursor(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 4, 12, 0, 0, 123_456_789, time.UTC)
	for _, call := range []*cairn.PendingCall{
		pendingCall("root", "call_1", at), pendingCall("a.b", "c.d", at), pendingCall("é🜁", "1.2.3", at), pendingCall("7.x", "7", time.Unix(-1, 1)),
	} {
		text := driver.CallCursor(call)
		created, root, id, err := driver.ParseCallCursor(text)
		if err != nil || !created.Equal(call.CreatedAt.Truncate(time.Microsecond)) || root != call.RootID || id != call.ID {
			t.Errorf("%q: %s, %q, %q, %v, want those of %+v", text, created, root, id, err, call)
		}
	}
	if created, root, id, err := driver.ParseCallCursor(""); !created.IsZero() || root != "" || id != "" || err != nil {
		t.Errorf("the beginning: %s, %q, %q, %v", created, root, id, err)
	}
	for _, bad := range []string{".", "..", "1", "1.2", "1.4.", "1.4.abc", "1.0.abc", "1.-1.abc", "?.1.ab", "1.x.ab", ".1.ab", "1..ab", "zzzzzzzzzzzzzzzz.1.ab"} {
		if _, _, _, err := driver.ParseCallCursor(bad); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}

func TestCompareCalls(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 4, 12, 0, 0, 0, time.UTC)
	inOrder := []*cairn.PendingCall{
		pendingCall("z", "z", at.Add(-time.Microsecond)), pendingCall("a", "a", at.Add(time.Microsecond-1)), pendingCall("a", "b", at), pendingCall("b", "a", at),
		pendingCall("a", "a", at.Add(time.Microsecond)),
	}
	for i, a := range inOrder {
		for j, b := range inOrder {
			if got := driver.CompareCalls(a, b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("call %d compared with call %d: %d", i, j, got)
			}
		}
	}
}

// FuzzParseCallCursor checks that a cursor made from a parsed cursor parses to the same place.
func FuzzParseCallCursor(f *testing.F) {
	for _, seed := range []string{"", "..", "1.1.ab", "-zz.2.a.b", "1y2p0ij32e8e7.1.ab", "+1.+1.ab"} {
		f.Add(seed)
	}
	f.Add(driver.CallCursor(pendingCall("root", "call_1", time.Date(2026, time.March, 4, 12, 0, 0, 0, time.UTC))))
	f.Fuzz(func(t *testing.T, text string) {
		at, root, id, err := driver.ParseCallCursor(text)
		if err != nil {
			if !errors.Is(err, cairn.ErrInvalid) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if text == "" {
			return
		}
		again := driver.CallCursor(pendingCall(root, id, at))
		at2, root2, id2, err := driver.ParseCallCursor(again)
		if err != nil || !at2.Equal(at) || root2 != root || id2 != id || root == "" {
			t.Fatalf("%q reads %s, %q, %q; %q reads %s, %q, %q, %v", text, at, root, id, again, at2, root2, id2, err)
		}
	})
}
