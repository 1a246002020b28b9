package modeltest

import (
	"context"
	"fmt"
	"iter"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

// recorder is a test whose failure is only recorded.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failed   bool
	messages []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed, r.messages = true, append(r.messages, fmt.Sprintf(format, args...))
}
func (r *recorder) Error(args ...any)                 { r.Errorf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.Fatalf("%s", fmt.Sprint(args...)) }
func (r *recorder) Skipf(string, ...any)              { runtime.Goexit() }
func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// red runs the suite and returns the messages of the checks that fail, by name. The checks of a model that hangs have
// their own patience, unless that is 0.
func red(t *testing.T, m cairn.Model, opts *Options, hangs ...fault) map[string]string {
	declared, problem := opts.declared()
	if problem != "" {
		t.Fatal(problem)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	list := map[string]string{}
	for _, c := range checks() {
		all.Go(func() {
			r, its := &recorder{TB: t}, *declared
			for _, f := range hangs {
				if f.patience > 0 && f.fails(c.name) {
					its.Patience = f.patience
				}
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				c.run(&harness{TB: r, model: m, opts: &its})
			}()
			<-ended
			if r.Failed() {
				mu.Lock()
				defer mu.Unlock()
				list[c.name] = strings.Join(r.messages, "\n")
			}
		})
	}
	all.Wait()
	return list
}

// sequence is a reply, and call makes one.
type (
	sequence = iter.Seq2[cairn.Chunk, error]
	call     func(ctx context.Context, req *cairn.Request) sequence
)

// faulty is a model with a fault.
type faulty struct {
	cairn.Model
	info func() cairn.ModelInfo
	call call
}

func (f *faulty) Info() cairn.ModelInfo {
	if f.info != nil {
		return f.info()
	}
	return f.Model.Info()
}

func (f *faulty) Stream(ctx context.Context, req *cairn.Request) sequence {
	if f.call != nil {
		return f.call(ctx, req)
	}
	return f.Model.Stream(ctx, req)
}

// edits returns a model that sends something else for each element of a reply.
func edits(m cairn.Model, edit func(element) []element) *faulty {
	return &faulty{Model: m, call: func(ctx context.Context, req *cairn.Request) sequence {
		return func(yield func(cairn.Chunk, error) bool) {
			for c, err := range m.Stream(ctx, req) {
				for _, e := range edit(element{c, err}) {
					if !yield(e.chunk, e.err) {
						return
					}
				}
			}
		}
	}}
}

// around sends chunks before and after those of a type.
func around(m cairn.Model, kind cairn.ChunkType, before, after []cairn.Chunk) *faulty {
	return edits(m, func(e element) []element {
		if e.err != nil || e.chunk.Type != kind {
			return []element{e}
		}
		var list []element
		for _, c := range slices.Concat(before, []cairn.Chunk{e.chunk}, after) {
			list = append(list, element{chunk: c})
		}
		return list
	})
}

// changes changes chunks of a type.
func changes(m cairn.Model, kind cairn.ChunkType, change func(*cairn.Chunk)) *faulty {
	return edits(m, func(e element) []element {
		if e.err == nil && e.chunk.Type == kind {
			change(&e.chunk)
		}
		return []element{e}
	})
}

// fails changes the errors of a model, unless a context is done.
func fails(m cairn.Model, change func(error) []element) *faulty {
	return edits(m, func(e element) []element {
		if e.err == nil || cairn.AsError(e.err).Code == cairn.ErrAborted || cairn.AsError(e.err).Code == cairn.ErrTimeout {
			return []element{e}
		}
		return change(e.err)
	})
}

// stopped changes the errors of contexts that are done.
func stopped(m cairn.Model, change func(error) []element) *faulty {
	return edits(m, func(e element) []element {
		if e.err == nil || cairn.AsError(e.err).Code != cairn.ErrAborted && cairn.AsError(e.err).Code != cairn.ErrTimeout {
			return []element{e}
		}
		return change(e.err)
	})
}

// before calls f with each request.
func before(m cairn.Model, f func(*cairn.Request)) *faulty {
	return &faulty{Model: m, call: func(ctx context.Context, req *cairn.Request) sequence {
		return func(yield func(cairn.Chunk, error) bool) {
			f(req)
			m.Stream(ctx, req)(yield)
		}
	}}
}

func TestSamplePasses(t *testing.T) {
	t.Parallel()
	m, opts := Sample()
	for name, message := range red(t, m, opts) {
		t.Errorf("%s: %s", name, message)
	}
}

// fault is a model with one fault, and the checks that must fail because of it.
type fault struct {
	breaks   func(m cairn.Model) cairn.Model
	red      []string      // patterns of path.Match
	patience time.Duration // of these checks; 0 means the default
}

// fails reports whether a check must fail.
func (f *fault) fails(check string) bool {
	return slices.ContainsFunc(f.red, func(pattern string) bool { ok, _ := path.Match(pattern, check); return ok })
}

// Each fault must fail the checks that are about it, and no other. Each check must fail because of a fault.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	ran, seen := 0, map[string]bool{"Failure": true} // see TestOptionsAreChecked
	t.Cleanup(func() {
		for _, c := range checks() {
			if ran == len(faults) && !seen[c.name] { // -run may select some faults
				t.Errorf("no fault fails %s", c.name)
			}
		}
	})
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, opts := Sample()
			got := red(t, f.breaks(m), opts, f)
			mu.Lock()
			defer mu.Unlock()
			ran++
			for check, message := range got {
				seen[check] = true
				if !f.fails(check) {
					t.Errorf("%s must not fail: %s", check, message)
				}
			}
			for _, pattern := range f.red {
				found := false
				for check := range got {
					ok, _ := path.Match(pattern, check)
					found = found || ok
				}
				if !found {
					t.Errorf("%s must fail", pattern)
				}
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	_, full := Sample()
	for name, test := range map[string]struct {
		opts *Options
		says string
	}{
		"nothing":               {nil, "Stall is nil"},
		"no failure":            {&Options{Stall: full.Stall}, "Fail is nil"},
		"unknown ability":       {&Options{Without: []Ability{"stall"}}, `"stall"`},
		"set and left out":      {&Options{Stall: full.Stall, Fail: full.Fail, Without: []Ability{Stalls}}, "Stall is set"},
		"call that is left out": {&Options{Call: askForCall, Stall: full.Stall, Fail: full.Fail, Without: []Ability{Calls}}, "Call is set"},
		"negative patience":     {&Options{Stall: full.Stall, Fail: full.Fail, Patience: -1}, "Patience"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, problem := test.opts.declared(); !strings.Contains(problem, test.says) {
				t.Errorf("got %q, want one that says %q", problem, test.says)
			}
		})
	}
	t.Run("no failure at all", func(t *testing.T) {
		t.Parallel()
		m, opts := Sample()
		opts.Fail = func(cairn.Code) *cairn.Request { return nil }
		if got := red(t, m, opts); len(got) != 1 || got["Failure"] == "" {
			t.Errorf("got %q", got)
		}
	})
}
