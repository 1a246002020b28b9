package server

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/sample"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// Whatever goes over the wire, or into an export, has durations in seconds.
func TestNoNanosecondsOnTheWire(t *testing.T) {
	t.Parallel()
	list := []reflect.Type{reflect.TypeFor[problemBody]()}
	for _, rt := range routes() {
		for _, t := range []reflect.Type{rt.In, rt.Out, rt.Frames} {
			if t != nil {
				list = append(list, t)
			}
		}
	}
	for _, v := range []any{cairn.Session{}, cairn.Run{}, cairn.Message{}, cairn.Event{}, cairn.Checkpoint{}, cairn.PendingCall{}, cairn.Receipt{},
		cairn.Result{}, cairn.Suspension{}, cairn.Stop{}, cairn.Error{}, cairn.Step{}, cairn.Awaits{}, cairn.CallRef{},
		store.Part{}, driver.Contents{}, store.Due{}, store.Record{}, driver.Removed{},
		engine.SweepReport{}, engine.EraseReport{}, engine.Snapshot{}, engine.Worker{}, client.Chat{}} {
		list = append(list, reflect.TypeOf(v))
	}
	known := map[reflect.Type]bool{}
	for _, of := range list {
		for _, field := range sample.Durations(of, known) {
			t.Errorf("%s is a time.Duration, found from %s: make it a cairn.Duration", field, of)
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[cairn.Session](), reflect.TypeFor[cairn.Lease](), reflect.TypeFor[cairn.CallRef](), reflect.TypeFor[cairn.Error]()} {
		if !known[of] {
			t.Errorf("%s was not searched", of)
		}
	}
	if found := sample.Durations(reflect.TypeFor[struct {
		In []struct {
			Wait map[string]*struct{ For time.Duration }
		}
	}](), map[reflect.Type]bool{}); len(found) != 1 {
		t.Errorf("found %q in a type with one duration", found)
	}
}

func TestOpenAPIHasDurationsInSeconds(t *testing.T) {
	t.Parallel()
	raw, err := openAPI(routes(), false, false)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Type, Description string }
			}
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	for name, field := range map[string]string{"Session": "ttl", "Lease": "ttl", "CallRef": "wait_at_most", "Error": "retry_after", "Awaits": "wait_at_most"} {
		if p := doc.Components.Schemas[name].Properties[field]; p.Type != "number" || !strings.Contains(p.Description, "econds") {
			t.Errorf("%s.%s is a %q: %q", name, field, p.Type, p.Description)
		}
	}
}
