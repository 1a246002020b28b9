package main

import (
	"crypto/rand"
	"strings"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn/examples/internal/process"
	"github.com/cairn-agents/cairn/internal/testenv"
)

func TestMain(m *testing.M) { process.Main(main, func() { testenv.Main(m) }) }

func TestWorkerNamesTheVariableThatIsMissing(t *testing.T) {
	t.Setenv("DATABASE_URL", "")
	if got := process.Fails(t, t.TempDir(), 2); !strings.Contains(got, "DATABASE_URL is not set: DATABASE_URL=postgres://") {
		t.Errorf("%q", got)
	}
}

// The second worker packs what the first one has not packed when it is killed, and ends when it is asked to.
func TestWorkerTakesOver(t *testing.T) {
	t.Setenv("DATABASE_URL", testenv.Postgres(t))
	lamps, chairs := "lamps "+rand.Text(), "chairs "+rand.Text() // the test may have run on the database before
	t.Setenv("THINK", "1h")
	one := process.Start(t, t.TempDir(), lamps)
	t.Setenv("THINK", "0s")
	two := process.Start(t, t.TempDir(), chairs)
	two.Await(t, "completed "+chairs)
	one.Await(t, "packed "+lamps+" box 2")
	one.Kill(t)
	boxes := ""
	for line := ""; line != "completed "+lamps; {
		line = two.Await(t, lamps)
		if _, number, ok := strings.Cut(line, "packed "+lamps+" box "); ok {
			boxes += number
		}
	}
	if boxes != "3" && boxes != "23" { // killed, perhaps, before the second result was stored
		t.Errorf("the second worker packed boxes %q", boxes)
	}
	two.Signal(t, syscall.SIGTERM)
	two.End(t)
}
