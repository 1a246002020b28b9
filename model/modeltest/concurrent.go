package modeltest

import (
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
)

var concurrencyChecks = []check{{name: "Concurrent", run: concurrent}}

// streams is the number of concurrent calls.
const streams = 16

// concurrent tests that each of several replies at once is the one to its request. All calls are made before the first
// reply is read.
func concurrent(h *harness) {
	words := make([]string, streams)
	sequences := make([]func(func(cairn.Chunk, error) bool), streams)
	calls := make([]bool, streams)
	for i := range words {
		words[i] = fmt.Sprintf("lamp-%02d", i+10)
		calls[i] = i%4 == 3 && !h.without(Calls)
		req := h.text(words[i])
		if calls[i] {
			req = h.call(words[i])
		}
		sequences[i] = h.model.Stream(h.Context(), req)
	}
	readings := make([]*reading, streams)
	for i := range readings {
		readings[i] = begin(func() func(func(cairn.Chunk, error) bool) { return sequences[i] }, nil)
	}
	for i, one := range readings {
		r := h.wait(one)
		got := r.text()
		if calls[i] {
			got += r.args()
		}
		problem := r.broken()
		if err := r.err(); err != nil && problem == "" {
			problem = fmt.Sprintf("the call failed: %v", err)
		}
		for k := range words {
			if has := strings.Contains(got, words[k]); has != (k == i) && problem == "" {
				problem = fmt.Sprintf("the reply is %q", got)
			}
		}
		if problem != "" {
			h.Errorf("stream %d of %d was asked for %q: %s", i+1, streams, words[i], problem)
		}
	}
}
