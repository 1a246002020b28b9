package aisdk_test

import (
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/server/aisdk"
)

func ExampleNew() {
	events := []cairn.Event{
		{Type: cairn.EventRunStart, SessionID: "s", RunID: "run-1"},
		{Type: cairn.EventStepStart, SessionID: "s", RunID: "run-1", Step: 1},
		{Type: cairn.EventTextDelta, SessionID: "s", RunID: "run-1", Step: 1, Text: "Hello."},
	}
	enc := aisdk.New(aisdk.V6, "s", aisdk.TurnID("run-1"))
	fmt.Print(string(enc.Replay(events)))
	fmt.Print(string(enc.Event(&cairn.Event{Type: cairn.EventStepCommitted, SessionID: "s", RunID: "run-1", Step: 1})))
	// Output:
	// data: {"type":"start","messageId":"turn_run-1","messageMetadata":{"run_id":"run-1"}}
	//
	// data: {"type":"start-step"}
	//
	// data: {"type":"text-start","id":"text-1"}
	//
	// data: {"type":"text-delta","id":"text-1","delta":"Hello."}
	//
	// data: {"type":"text-end","id":"text-1"}
	//
	// data: {"type":"finish-step"}
}
