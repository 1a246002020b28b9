package session

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

// FoldCall is [Live.Fold] for what a call wrote. It adds a conflict to the outcome for each value that an earlier call
// of the same round wrote and that the call, which did not see it, replaces by another or deletes.
func (l *Live) FoldCall(out *Outcome, c *step.Call, w *step.Writes) error {
	if len(w.Ops) == 0 {
		return l.Fold(out, w)
	}
	at := contested(out.folded, c, w.Ops)
	before := l.values(at)
	if err := l.Fold(out, w); err != nil {
		return err
	}
	out.folded = append(out.folded, c)
	after := l.values(at)
	for _, path := range slices.Sorted(maps.Keys(at)) {
		if !ops.Equal(before[path], after[path]) {
			out.conflict(cairn.StateConflict{Path: path, Lost: at[path].Use.CallID, Won: c.Use.CallID})
		}
	}
	return nil
}

// conflict adds a conflict. Earlier ones at the path are lost to the same call.
func (out *Outcome) conflict(c cairn.StateConflict) {
	for i := range out.Conflicts {
		if other := &out.Conflicts[i]; other.Path == c.Path && other.Won == c.Lost {
			other.Won = c.Won
		}
	}
	out.Conflicts = append(out.Conflicts, c)
}

// contested returns the paths at which operations of a call may overwrite those of calls of its round that were folded
// before it, each with the latest such call. Of a path and one below it, it is the one below.
func contested(folded []*step.Call, c *step.Call, list []cairn.Op) map[string]*step.Call {
	var at map[string]*step.Call
	var mine map[string]bool // the paths that the call overwrites
	for _, other := range folded {
		if other.Round != c.Round {
			continue
		}
		if mine == nil {
			at, mine = map[string]*step.Call{}, overwrites(list)
		}
		wrote := other.Writes().Ops
		for i := range wrote {
			if within(wrote[i].Path, mine) {
				at[wrote[i].Path] = other
			}
		}
		theirs := overwrites(wrote)
		for path := range mine {
			if within(path, theirs) {
				at[path] = other
			}
		}
	}
	return at
}

// overwrites returns the paths that operations set or delete. Appends and increments keep what others have written.
func overwrites(list []cairn.Op) map[string]bool {
	paths := map[string]bool{}
	for i := range list {
		if list[i].Kind == cairn.OpReplace || list[i].Kind == cairn.OpDelete {
			paths[list[i].Path] = true
		}
	}
	return paths
}

// within reports whether paths has a path or one above it.
func within(path string, paths map[string]bool) bool {
	for !paths[path] {
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return false
		}
		path = path[:i]
	}
	return true
}

// values returns the values of the state at paths; nil where there is none.
func (l *Live) values(at map[string]*step.Call) map[string][]byte {
	if len(at) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	values := make(map[string][]byte, len(at))
	for path := range at {
		values[path] = bytes.Clone(l.Doc.Value(path))
	}
	return values
}
