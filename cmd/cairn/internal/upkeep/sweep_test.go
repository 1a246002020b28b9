package upkeep

import (
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/engine"
)

func TestSweepReport(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := engine.SweepReport{Detected: 3, Expired: 2, Failed: 1, Errors: []engine.SweepError{{SessionID: "s-1", Error: cairn.Errorf(cairn.ErrCorrupt, "stored session\ndoes not decode")}}}
	if err := (&sweepCmd{}).print(&cli.App{Stdout: &out}, r); err != nil {
		t.Fatal(err)
	}
	const want = `DETECTED  EXPIRED  PURGED  SNAPSHOTS DELETED  EVENTS TRIMMED  FAILED
3         2        0       0                  0               1

SESSION  ERROR
s-1      corrupt: stored session does not decode
`
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
}
