package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

// Index is what a driver of a session needs to know of its whole transcript, updated message by message: which call ids
// are taken, which tools are off, which companions work in the background, whether reviewers edited arguments, what
// toolsets offer, and which deferred tools were found. The zero value is the index of an empty transcript. Adding the
// same messages again, in order, changes nothing.
type Index struct {
	calls map[string]struct{}
	off   map[string]struct{}
	away  map[string]struct{}
	// differs reports whether some message is sent in another form than it is stored: a result has the arguments that
	// its tool ran with, a tool was called as a deferred one, a message has data for pages, or a toolset has a note.
	differs bool
	// pinned is what toolsets offer.
	pinned map[string]json.RawMessage
	found  map[string]struct{}
	// leftOut reports whether some message lists files that are left out.
	leftOut bool
	// blocks are the hashes of the blocks whose contents fingerprints have. instructions and tools are those of the latest
	// request.
	blocks              map[string]struct{}
	instructions, tools string
	// summed reports whether a summary stands for older messages, whose call ids are not in calls.
	summed bool
	// tainted reports whether the session is tainted, see [cairn.Step.Taint].
	tainted bool
	// workspace is the reference of the session's workspace; "" for none.
	workspace string
}

// Add updates the index with the next message.
func (x *Index) Add(m *cairn.Message) {
	if m.Summary != nil {
		x.restart(m.Summary)
	}
	if f := m.Fingerprint; f != nil {
		for hash := range f.Blocks {
			put(&x.blocks, hash)
		}
		x.instructions, x.tools = cmp.Or(f.Instructions, x.instructions), cmp.Or(f.Tools, x.tools)
	}
	x.differs, x.leftOut = x.differs || notes(m), x.leftOut || m.LeftOut != nil
	if m.Hidden {
		x.addSwitches(m.Tools)
		if m.Trust != "" {
			x.tainted = m.Trust == cairn.TrustTainted
		}
		x.workspace = cmp.Or(m.Workspace, x.workspace)
		if len(m.Pinned) > 0 {
			if x.pinned == nil {
				x.pinned = map[string]json.RawMessage{}
			}
			maps.Copy(x.pinned, m.Pinned)
		}
		if m.Origin == cairn.OriginCompanion {
			delete(x.away, m.ChildID)
		}
	}
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Type {
		case cairn.PartToolUse:
			if m.Role == cairn.RoleAssistant {
				put(&x.calls, p.ToolUse.CallID)
				x.differs = x.differs || p.ToolUse.Deferred
			}
		case cairn.PartData:
			x.differs = true
		case cairn.PartToolResult:
			x.differs = x.differs || len(p.Result.Edited) > 0
			if p.Result.Tool == cairn.FindTools && !p.Result.IsError {
				for _, name := range define.Found(p.Result.Output) {
					put(&x.found, name)
				}
			}
			if p.Result.Background != "" {
				put(&x.away, p.Result.Background)
			}
			x.workspace = cmp.Or(p.Result.Workspace, x.workspace)
		}
	}
}

// restart resets what a summary states anew, as if it came first.
func (x *Index) restart(s *cairn.Summary) {
	x.off, x.away, x.pinned, x.found, x.blocks, x.summed, x.tainted = nil, nil, nil, nil, nil, true, false
	x.instructions, x.tools, x.workspace = "", "", s.Workspace
	for _, hash := range s.Blocks {
		put(&x.blocks, hash)
	}
	for _, id := range s.Background {
		put(&x.away, id)
	}
	for _, name := range s.Found {
		put(&x.found, name)
	}
}

// Summarise adds to a summary, the next message, what x knows of all messages before it.
func (x *Index) Summarise(m *cairn.Message) {
	if len(x.off) > 0 {
		m.Tools = make(map[string]bool, len(x.off))
		for name := range x.off {
			m.Tools[name] = false
		}
	}
	if x.tainted {
		m.Trust = cairn.TrustTainted
	}
	m.Pinned, m.Summary.Workspace = maps.Clone(x.pinned), x.workspace
	m.Summary.Background, m.Summary.Blocks = slices.Sorted(maps.Keys(x.away)), slices.Sorted(maps.Keys(x.blocks))
	if m.Summary.Found = slices.Sorted(maps.Keys(x.found)); len(m.Summary.Found) > 0 {
		names := strings.Join(m.Summary.Found[:min(len(m.Summary.Found), namedTools)], ", ")
		m.Parts = append(m.Parts, cairn.TextPart(fmt.Sprintf("Tools found earlier, to be called with %s; %s shows their schemas again: %s", cairn.CallTool, cairn.FindTools, names)))
	}
}

// namedTools limits how many found tools a summary names to the model.
const namedTools = 100

// Tainted reports whether the session is tainted, see [cairn.Step.Taint].
func (x *Index) Tainted() bool { return x.tainted }

// Workspace returns the reference of the session's workspace; "" for none.
func (x *Index) Workspace() string { return x.workspace }

// Summarised reports whether a summary stands for older messages, whose call ids are unknown.
func (x *Index) Summarised() bool { return x.summed }

func (x *Index) addSwitches(tools map[string]bool) {
	for name, on := range tools {
		if on || name == cairn.FinishTool {
			delete(x.off, name)
		} else {
			put(&x.off, name)
		}
	}
}

func put(set *map[string]struct{}, name string) {
	if *set == nil {
		*set = map[string]struct{}{}
	}
	(*set)[name] = struct{}{}
}

// Taken reports whether a call of the transcript has the given id.
func (x *Index) Taken(callID string) bool {
	_, taken := x.calls[callID]
	return taken
}

// Off reports whether a tool is switched off.
func (x *Index) Off(tool string) bool {
	_, off := x.off[tool]
	return off
}

// Switched returns the tools that are switched off. The caller must not modify it.
func (x *Index) Switched() map[string]struct{} { return x.off }

// Away returns the sessions of companions that were left working and have not been reported on since. The caller must
// not modify it.
func (x *Index) Away() map[string]struct{} { return x.away }

// Pinned returns what the agent's toolsets offer, by toolset name. The caller must not modify it.
func (x *Index) Pinned() map[string]json.RawMessage { return x.pinned }

// Clone returns a copy that shares nothing with x.
func (x *Index) Clone() Index {
	return Index{maps.Clone(x.calls), maps.Clone(x.off), maps.Clone(x.away), x.differs, maps.Clone(x.pinned), maps.Clone(x.found), x.leftOut, maps.Clone(x.blocks), x.instructions, x.tools, x.summed, x.tainted, x.workspace}
}

// Differs reports whether some message is sent to a model in another form than it is stored, see [Sent].
func (x *Index) Differs() bool { return x.differs }

// LeavesOut reports whether files are left out of requests, see [LeaveOut].
func (x *Index) LeavesOut() bool { return x.leftOut }

// HasBlock reports whether a fingerprint has the content of a block.
func (x *Index) HasBlock(hash string) bool {
	_, has := x.blocks[hash]
	return has
}

// Blocks returns the hashes of the instructions and tools of the latest request; empty if they are not known.
func (x *Index) Blocks() (instructions, tools string) { return x.instructions, x.tools }

// Found reports whether the model has found deferred tools.
func (x *Index) Found() bool { return len(x.found) > 0 }
