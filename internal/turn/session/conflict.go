package session

import (
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

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
