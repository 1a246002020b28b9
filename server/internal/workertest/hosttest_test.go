package workertest

import (
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// overNetwork covers the behaviour in which a caller behind a network may differ from one in the process.
var overNetwork = hosttest.Set{
	"approval":              "a suspended turn ends its instance, and an answer begins the next",
	"other-process":         "which another process begins",
	"around":                "the hooks of the call that began the run go with its requests",
	"retries":               "a failed model call is repeated within a request, and not by the workflow as well",
	"step-limit":            "a run that fails is a result, and no failure of the workflow",
	"unruly-tools":          "nor is a tool that fails in its own way",
	"resume-race":           "two processes give the same turn away",
	"deadline":              "a worker gives a turn away because time has passed",
	"grandchild-approval":   "children are driven within one request",
	"background":            "a companion in the background has an instance of its own",
	"interrupt-approved":    "a stop comes during a request",
	"interrupt-answered":    "and between two",
	"busy-enqueue":          "the next turn has an instance of its own",
	"steer":                 "a message joins a turn that an instance drives",
	"crash-answered":        "a worker takes a turn over whose process is dead, and gives it away again",
	"crash-resuming":        "so it does one that never came to the worker",
	"crash-approved-staged": "what a dead process staged is not repeated",
	"race-of-verbs":         "turns are begun, stopped and rolled back at the same moment",
}

// Every conversation has the outcome that it has on any host.
func TestHost(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	start := func(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
		return g.process(tb, st, agents, opts, 0).eng
	}
	hosttest.Run(t, hosttest.Host{Name: "workflows", Records: true, Crashes: testenv.Choose(2, 0), Start: start},
		hosttest.Store{Name: "memstore", Set: testenv.Choose(overNetwork, hosttest.Every), Open: func(_ testing.TB, now func() time.Time) driver.Store {
			return memstore.New(&memstore.Options{Now: now})
		}})
}
