package session

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
)

// offered are the tools that a session has in addition to its agent's own and those it is given, with the inputs that
// they were computed from.
type offered struct {
	made  bool
	from  map[string]json.RawMessage // by toolsets
	found bool                       // deferred tools were found
	off   map[string]struct{}        // tools that are switched off
	// tools are those of toolsets, and those that find and call deferred tools.
	tools []cairn.Tool
	// listed are all tools that the model is sent.
	listed []cairn.Tool
}

// Offered returns the tools that the session has in addition to its agent's own and those it is given. These are the
// tools that toolsets offer, as pinned in the transcript and then in the messages that were added to the request for
// the step under way, and the tools that find and call deferred tools.
func (l *Live) Offered(context []cairn.Message) []cairn.Tool {
	if !l.offers() {
		return nil
	}
	return l.offeredBy(context).tools
}

// Effectful reports whether the session's model may call effectful tools.
func (l *Live) Effectful() bool {
	for _, list := range [][]cairn.Tool{l.agent.Tools, l.extra, l.Offered(nil)} {
		if slices.ContainsFunc(list, func(t cairn.Tool) bool { return define.Of(&t).Effectful }) {
			return true
		}
	}
	return false
}

// Listed returns the tools that the model is sent along with the given context messages: all that are not deferred.
func (l *Live) Listed(context []cairn.Message) []cairn.Tool { return l.offeredBy(context).listed }

// offers reports whether the session may have tools in addition to its agent's own and those it is given.
func (l *Live) offers() bool { return define.HasToolsets(l.agent) || define.Defers(l.agent) }

func (l *Live) offeredBy(context []cairn.Message) offered {
	pinned, found, off := l.pinned(context), l.index.Found(), l.index.Switched()
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := &l.offered; !o.made || o.found != found || !maps.Equal(off, o.off) || !maps.EqualFunc(pinned, o.from, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		*o = offered{made: true, from: pinned, found: found, off: maps.Clone(off)}
		if define.HasToolsets(l.agent) {
			o.tools, _ = define.Offered(l.agent, l.extra, pinned) // errors were logged when the tools were pinned
		}
		l.deferSome(o)
	}
	return l.offered
}

// deferSome determines which tools are listed. Once the model has found deferred tools, deferred ones stay off the list
// whatever its size, so that the list does not change back and forth with what toolsets offer.
func (l *Live) deferSome(o *offered) {
	o.listed = slices.Concat(l.agent.Tools, l.extra, o.tools)
	var hidden []cairn.Tool
	size := 0
	for i := range o.listed {
		t := define.Of(&o.listed[i])
		if size += len(t.Name) + len(t.Description) + len(t.Input.JSON()); t.Deferred {
			hidden = append(hidden, o.listed[i])
		}
	}
	if len(hidden) == 0 {
		return
	}
	most, ok := define.DeferAbove(l.agent)
	if ok && (o.found || transcript.TextTokens(size) > most) {
		off := o.off // a copy: the index may change while a search runs
		isOff := func(name string) bool { _, is := off[name]; return is }
		through := []cairn.Tool{define.Finder(hidden, isOff), define.Caller}
		o.tools = slices.Concat(o.tools, through)
		o.listed = append(slices.DeleteFunc(o.listed, define.IsDeferred), through...)
		return
	}
	// A model may call a tool that it found earlier in the way it did then.
	o.tools = slices.Concat(o.tools, []cairn.Tool{define.Caller})
}

// pinned returns what the toolsets offer, by the transcript and then by context.
func (l *Live) pinned(context []cairn.Message) map[string]json.RawMessage {
	pinned, own := l.index.Pinned(), false
	for i := range context {
		if len(context[i].Pinned) == 0 {
			continue
		}
		if !own {
			pinned, own = maps.Clone(pinned), true
		}
		if pinned == nil {
			pinned = map[string]json.RawMessage{}
		}
		maps.Copy(pinned, context[i].Pinned)
	}
	return pinned
}
