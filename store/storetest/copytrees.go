package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

var copyTreesTests = []storeTest{
	{name: "CopyTrees", run: copiesTrees},
	{name: "CopyTreesKeepsTheOthers", run: copiesAroundFaults},
	{name: "CopyTreesComparesCopies", run: copiesAreCompared},
	{name: "CopyTreesIsCancelled", run: copyIsCancelled},
	{name: "Gather", run: gathers},
}

// small makes a tree of one session with a turn, whose log has events.
func (h *harness) small(root string) {
	h.Helper()
	h.createWith(root, `{"n":0}`)
	h.end(h.stepState(h.begin(root, "run of "+root), "reply", replaceOp("/n", "1")))
	_, err := h.importer().EventLog().Append(h.Context(), h.log(root), 0, lines(1, 5)...)
	h.must(err)
}

// copies copies trees and returns the outcomes.
func (h *harness) copies(from, to driver.Importer, roots ...string) (list []store.TreeCopy) {
	h.Helper()
	for t, err := range store.CopyTrees(h.Context(), from, to, ids(roots...)) {
		h.must(err)
		if i := len(list); t.Root != roots[i] {
			h.Fatalf("outcome %d is of %q, want that of %q", i, t.Root, roots[i])
		}
		list = append(list, t)
	}
	if len(list) != len(roots) {
		h.Fatalf("%d outcomes of %d trees", len(list), len(roots))
	}
	return list
}

func ids(list ...string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, id := range list {
			if !yield(id, nil) {
				return
			}
		}
	}
}

// copiesTrees copies more trees than are copied together: small ones, one that has everything and one in pages.
func copiesTrees(h *harness) {
	var roots []string
	for i := range h.rounds(70) {
		root := fmt.Sprint("small ", i)
		h.small(root)
		roots = append(roots, root)
	}
	grown := h.grown("root")
	h.createWith("long", `{}`)
	for range 3 {
		h.commit("long", &driver.Commit{Messages: says(slices.Repeat([]string{"word"}, 40)...)})
	}
	roots = slices.Insert(roots, 3, "root", "long")
	to := h.other()
	for i, t := range h.copies(h.importer(), to.importer(), roots...) {
		if !t.Copied || t.Err != nil {
			h.Fatalf("copy: %+v", t)
		}
		want := store.TreeCopy{Root: roots[i], Copied: true, Sessions: 1, Messages: h.load(roots[i]).MessageCount, Events: 4}
		switch t.Root {
		case "root":
			want.Sessions, want.Messages, want.Events = len(grown), 0, 8
			for _, id := range grown {
				want.Messages += h.load(id).MessageCount
			}
		case "long":
			want.Events = 0
		}
		same(h.T, "the outcome of "+t.Root, t, want)
		difference, err := store.Compare(h.Context(), h.importer(), to.importer(), t.Root)
		if err != nil || difference != "" {
			h.Fatalf("the copy of %q differs in %s, %v", t.Root, difference, err)
		}
	}
	for _, t := range h.copies(h.importer(), to.importer(), roots...) {
		if t.Copied || t.Err != nil {
			h.Fatalf("copied again: %+v", t)
		}
	}
}

// damaged is a store that exports the parts of one tree with damage.
type damaged struct {
	driver.Importer
	root   string
	damage func([]*driver.Part)
}

func (d *damaged) Gather(ctx context.Context, roots []string, bytes int) (map[string][]*driver.Part, error) {
	trees := map[string][]*driver.Part{}
	for _, root := range roots {
		var list []*driver.Part
		for part, err := range store.Export(ctx, d.Importer, root) {
			if err != nil {
				list = nil
				break
			}
			list = append(list, part)
		}
		if root == d.root {
			d.damage(list)
		}
		if list != nil {
			trees[root] = list
		}
	}
	return trees, nil
}

// copiesAroundFaults copies trees some of which cannot be copied: each has its own error, and the others are copied.
func copiesAroundFaults(h *harness) {
	to := h.other()
	roots := []string{"first", "runs", "there", "differs", "nobody", "damaged", "child", "twice", "twice", "last"}
	for _, root := range []string{"first", "there", "differs", "damaged", "twice", "last"} {
		h.small(root)
	}
	h.create("runs")
	h.begin("runs", "run")
	h.create("family")
	h.tree("child", "family")
	to.imports(h, "there")
	to.imports(h, "differs")
	to.commit("differs", &driver.Commit{Messages: says("more")})
	from := &damaged{h.importer(), "damaged", func(list []*driver.Part) {
		part := partWith(list, func(p *driver.Part) bool { return len(p.Events) > 0 })
		part.Events = slices.Clone(part.Events) // the source's own
		part.Events[3].Sequence = 7
	}}
	want := map[string]cairn.Code{"runs": cairn.ErrAlreadyRunning, "differs": cairn.ErrExists, "nobody": cairn.ErrNotFound, "damaged": cairn.ErrInvalid, "child": cairn.ErrInvalid}
	twice := 0
	for _, t := range h.copies(from, to.importer(), roots...) {
		switch err := want[t.Root]; {
		case err != "":
			to.wantError(t.Err, err, "copy of "+t.Root)
			if t.Copied {
				h.Fatalf("%q is copied in spite of %v", t.Root, t.Err)
			}
		case t.Root == "twice":
			h.must(t.Err)
			if t.Copied {
				twice++
			}
		case t.Err != nil || t.Copied != (t.Root != "there"):
			h.Fatalf("copy: %+v", t)
		}
	}
	if twice != 1 {
		h.Fatalf("a tree that is named twice was copied %d times", twice)
	}
	to.absent("damaged", []string{"damaged"}, "a damaged tree")
	for _, root := range []string{"first", "twice", "last"} {
		same(h.T, "the copy of "+root, to.content(root), h.content(root))
	}
	if t := h.copies(h.importer(), to.importer(), "damaged")[0]; !t.Copied || t.Err != nil {
		h.Fatalf("copied after the damage: %+v", t)
	}
}

// careless is a store that imports one tree with another text.
type careless struct {
	driver.Importer
	root string
}

func (c *careless) Import(ctx context.Context, root string, parts iter.Seq2[*driver.Part, error]) error {
	return c.Importer.Import(ctx, root, func(yield func(*driver.Part, error) bool) {
		for part, err := range parts {
			if err == nil && root == c.root && len(part.Messages) > 0 {
				own := *part
				own.Messages = slices.Clone(part.Messages)
				own.Messages[0].Parts = says("another text")[0].Parts
				part = &own
			}
			if !yield(part, err) {
				return
			}
		}
	})
}

// gathering is a careless store that gathers.
type gathering struct {
	careless
	driver.Gatherer
}

// copiesAreCompared copies trees to a store that changes one of them: the copy is reported, and stays for inspection.
func copiesAreCompared(h *harness) {
	roots := []string{"first", "changed", "last"}
	for _, root := range roots {
		h.small(root)
	}
	for _, gathers := range []bool{false, true} {
		to := h.other()
		c := careless{to.importer(), "changed"}
		var st driver.Importer = &c
		if g, ok := to.st.(driver.Gatherer); ok && gathers {
			st = &gathering{c, g}
		}
		for _, t := range h.copies(h.importer(), st, roots...) {
			switch {
			case t.Root != "changed":
				h.must(t.Err)
			case t.Copied || to.content("changed") == nil:
				h.Fatalf("copy: %+v", t)
			default:
				to.wantError(t.Err, cairn.ErrCorrupt, "a copy that differs")
			}
		}
		again := h.copies(h.importer(), st, "changed")[0]
		to.wantError(again.Err, cairn.ErrExists, "a copy over one that differs")
	}
}

// copyIsCancelled ends a copy early: what was copied is whole, and the next copy continues.
func copyIsCancelled(h *harness) {
	var roots []string
	for i := range 8 {
		roots = append(roots, fmt.Sprint("root ", i))
		h.small(roots[i])
	}
	to := h.other()
	failure := errors.New("no more roots")
	n := 0
	for t, err := range store.CopyTrees(h.Context(), h.importer(), to.importer(), func(yield func(string, error) bool) {
		_ = yield(roots[0], nil) && yield("", failure)
	}) {
		if n++; n == 1 && (err != nil || !t.Copied) || n == 2 && !errors.Is(err, failure) {
			h.Fatalf("outcome %d: %+v, %v", n, t, err)
		}
	}
	if n != 2 {
		h.Fatalf("%d outcomes, want a copy and an error", n)
	}
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	var last error
	for t, err := range store.CopyTrees(ctx, h.importer(), to.importer(), ids(roots...)) {
		if last = err; err == nil && t.Err != nil {
			h.Fatalf("copy: %+v", t)
		}
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		h.Fatalf("a cancelled copy ends with %v", last)
	}
	for range store.CopyTrees(h.Context(), h.importer(), to.importer(), ids(roots...)) {
		break
	}
	for _, root := range roots {
		if to.content(root) != nil {
			same(h.T, "the copy of "+root, to.content(root), h.content(root))
		}
	}
	for _, t := range h.copies(h.importer(), to.importer(), roots...) {
		h.must(t.Err)
	}
}

// gathers reads trees together as they are exported one by one.
func gathers(h *harness) {
	g, ok := h.st.(driver.Gatherer)
	if !ok {
		return
	}
	roots := []string{"branch", "branched", "empty", "full", "pruned", "small", "staged", "trimmed"}
	h.create("empty")
	h.small("small")
	h.threeSteps("branched")
	h.branch("branched", driver.BranchPoint{}, "branch")
	h.create("staged")
	h.commit("staged", withWait(&driver.Commit{Messages: says("hello")}, "staged"))
	h.commit("staged", beginCommit("run of staged", "worker", brief))
	h.stage(h.load("staged"), piece("step", "reply", `{"a":1}`))
	h.createWith("full", `{"n":0}`)
	h.commit("full", withWait(&driver.Commit{Messages: says("hello"), Enqueue: &driver.QueuedTurn{ID: "later", Messages: says("later")},
		Cache: []driver.CacheEntry{{Key: "b", Tool: "search", Output: []byte(`[1]`)}, {Key: "a", Tool: "search", Output: []byte(`{}`)}}}, "full"))
	h.commit("full", &driver.Commit{Calls: []driver.CallWrite{asks("another call of full", "step-of-full")}, Enqueue: &driver.QueuedTurn{ID: "at last", Messages: says("last")}})
	h.end(h.stepState(h.begin("full", "first run"), "reply", replaceOp("/n", "1")))
	h.answers("full", "second run", cairn.TextPart("said"))
	h.threeSteps("pruned")
	_, err := h.st.Prune(h.Context(), "pruned", 1)
	h.must(err)
	h.small("trimmed")
	h.must(h.importer().EventLog().Trim(h.Context(), h.log("trimmed"), 4))

	others := []string{"root", "long", "nobody", "child of root"}
	h.grown("root")
	h.createWith("long", `{}`)
	for range 3 {
		h.commit("long", &driver.Commit{Messages: says(slices.Repeat([]string{"word"}, 40)...)})
	}
	trees, err := g.Gather(h.Context(), slices.Concat(others, roots), 1<<20)
	h.must(err)
	for _, root := range roots {
		same(h.T, "the parts of "+root, h.own(trees[root]), h.parts(root))
	}
	for _, root := range others {
		if trees[root] != nil {
			h.Errorf("%q is gathered", root)
		}
	}
	for bytes := range 64 {
		trees, err := g.Gather(h.Context(), roots, bytes*bytes)
		h.must(err)
		for root, parts := range trees {
			same(h.T, fmt.Sprintf("the parts of %s, of %d bytes", root, bytes*bytes), h.own(parts), h.parts(root))
		}
		if bytes == 0 && len(trees) == len(roots) {
			h.Errorf("%d trees are gathered without room", len(trees))
		}
	}
}
