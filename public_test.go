package cairn_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/sample"
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

// A field that a session gets is public unless it is named here.
func TestPublicSession(t *testing.T) {
	t.Parallel()
	var s cairn.Session
	sample.Fill(&s)
	want := []string{"Tags", "Metadata", "TraceParent", "Secret", "Unpublished", "Lease"}
	if got := left(s, s.Public()); !slices.Equal(got, want) {
		t.Errorf("a public session lacks %v, want %v", got, want)
	}
	if s.Secret == "" || s.Unpublished == nil {
		t.Error("the session itself has changed")
	}
}

func TestPublicEvent(t *testing.T) {
	t.Parallel()
	for kind, want := range map[cairn.EventType][]string{
		cairn.EventUserMessage:    nil,
		cairn.EventToolEnd:        nil,
		cairn.EventContextAdded:   {"Text", "Truncated", "Files"},
		cairn.EventContextChanged: {"Data", "Truncated"},
	} {
		var ev cairn.Event
		sample.Fill(&ev)
		ev.Type = kind
		if got := left(ev, ev.Public()); !slices.Equal(got, want) {
			t.Errorf("a public %s lacks %v, want %v", kind, got, want)
		}
	}
}
