package cairn_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/sample"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// left lists the fields that are set in one value and not in the other.
func left[T any](from, to T) (names []string) {
	a, b := reflect.ValueOf(from), reflect.ValueOf(to)
	for i := range a.NumField() {
		if !a.Field(i).IsZero() && b.Field(i).IsZero() {
			names = append(names, a.Type().Field(i).Name)
		}
	}
	return names
}

// New fields of a session are public unless they are named here.
func TestPublicSession(t *testing.T) {
	t.Parallel()
	var s cairn.Session
	sample.Fill(&s)
	want := []string{"Tags", "Metadata", "TraceParent", "Secret", "Outbox", "Lease"}
	if got := left(s, s.Public()); !slices.Equal(got, want) {
		t.Errorf("a public session lacks %v, want %v", got, want)
	}
	if s.Secret == "" || s.Outbox == nil {
		t.Error("the session itself has changed")
	}
}

func TestPublicEvent(t *testing.T) {
	t.Parallel()
	for kind, want := range map[cairn.EventType][]string{
		cairn.EventUserMessage:    nil,
		cairn.EventToolEnd:        nil,
		cairn.EventContextAdded:   {"Text", "Truncated", "Files"},
		cairn.EventContextChanged: {"Text", "Data", "Truncated"},
	} {
		var ev cairn.Event
		sample.Fill(&ev)
		ev.Type = kind
		if got := left(ev, ev.Public()); !slices.Equal(got, want) {
			t.Errorf("a public %s lacks %v, want %v", kind, got, want)
		}
	}
}

// The public error of a run has the words of its code: those of a provider may contain secrets.
func TestPublicErrors(t *testing.T) {
	t.Parallel()
	const secret = "password=hunter2"
	why := func() *cairn.Error {
		return &cairn.Error{Code: cairn.ErrModelRequest, Message: secret, Field: secret, Details: []string{secret}, RetryAfter: cairn.Duration(time.Second),
			Calls: []cairn.CallRef{{Prompt: secret}}, Cause: errors.New(secret)}
	}
	ev, run, result := cairn.Event{Type: cairn.EventRunEnd, Error: why()}, cairn.Run{Error: why()}, cairn.Result{Error: why()}
	want := &cairn.Error{Code: cairn.ErrModelRequest, Message: "model request", RetryAfter: cairn.Duration(time.Second)}
	for name, got := range map[string]*cairn.Error{"event": ev.Public().Error, "run": run.Public().Error, "result": result.Public().Error} {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the error of a public %s is %+v, want %+v", name, got, want)
		}
	}
	if ev.Error.Message != secret || run.Error.Message != secret || result.Error.Message != secret {
		t.Error("what was made public has changed")
	}
	ev.Error = nil
	if ev.Public().Error != nil {
		t.Error("an event without an error has one in public")
	}
}

// The JSON of what an application has at hand has neither the right to write to a session, which is its lease, nor the
// secret from which ids are derived. A lease still says until when it is held.
func TestJSONHasNoLease(t *testing.T) {
	t.Parallel()
	var s cairn.Session
	sample.Fill(&s)
	s.Lease.Owner, s.Lease.Token, s.Secret = "process-7", 1234567890, "hush"
	for _, v := range []any{s, &s, s.Public(), s.Lease, []cairn.Session{s}, driver.Contents{Session: &s}, store.Page[cairn.Session]{Items: []cairn.Session{s}}} {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"process-7", "1234567890", "hush"} {
			if strings.Contains(string(raw), secret) {
				t.Errorf("the JSON of a %T has %q: %s", v, secret, raw)
			}
		}
	}
	if raw, _ := json.Marshal(s); !strings.Contains(string(raw), `"lease":{"until":`) {
		t.Errorf("the session does not say until when it is held: %s", raw)
	}
}

// No other type that an application encodes has a field for a token, an owner or a secret.
func TestJSONHasNoSecrets(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	var check func(at string, x reflect.Type)
	check = func(at string, x reflect.Type) {
		switch x.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
			check(at, x.Elem())
			return
		}
		if x.Kind() != reflect.Struct || seen[x] {
			return
		}
		seen[x] = true
		for i := range x.NumField() {
			f := x.Field(i)
			if !f.IsExported() || f.Tag.Get("json") == "-" {
				continue
			}
			if slices.Contains([]string{"Token", "Owner", "Secret"}, f.Name) {
				t.Errorf("%s.%s is in the JSON of %s", x, f.Name, at)
			}
			check(at, f.Type)
		}
	}
	for _, v := range []any{cairn.Session{}, cairn.Run{}, cairn.Message{}, cairn.Event{}, cairn.Checkpoint{}, cairn.PendingCall{}, cairn.Receipt{},
		cairn.Result{}, cairn.Suspension{}, cairn.Stop{}, cairn.Error{}, cairn.Step{}, driver.Contents{}, store.QueuedTurn{}, store.CacheEntry{}, store.Due{}} {
		check(reflect.TypeOf(v).String(), reflect.TypeOf(v))
	}
	if !seen[reflect.TypeFor[cairn.Lease]()] {
		t.Error("leases were not checked")
	}
}
