package main

import (
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// Both systems keep their turns, which is verified before they are measured.
func TestTurns(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-after", "0,2", "-writers", "1,2", "-rounds", "2", "-turns", "1"}, &out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	if rows := strings.Count(out.String(), "\n") - 2; rows != 4 {
		t.Errorf("%d rows", rows)
	}
	for _, args := range [][]string{{"-after", "-1"}, {"-writers", "0"}, {"-rounds", "0"}, {"-turns", "0"}, {"-speed"}} {
		if err := run(t.Context(), args, &out); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
