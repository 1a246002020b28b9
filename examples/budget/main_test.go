package main

import (
	"os"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/examples/internal/process"
)

func TestMain(m *testing.M) { process.Main(main, func() { os.Exit(m.Run()) }) }

func TestBudgetAsksAPerson(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := process.Fails(t, dir, 2, "again"); !strings.Contains(got, "usage: ") {
		t.Errorf("wrong usage: %q", got)
	}
	for verb, wants := range map[string][]string{
		"raise": {"The budget of this turn is $0.02", "completed The guild of masons."},
		"end":   {"The budget of this turn is $0.02", "interrupted", "budget is used up"},
	} {
		got := process.Run(t, dir, verb)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", verb, got, want)
			}
		}
	}
}
