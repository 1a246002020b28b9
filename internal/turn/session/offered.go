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

// offered are the tools that a session has beside its agent's own and those that it is given, and what they were made of.
type offered struct {
	made  bool
	from  map[string]json.RawMessage // by toolsets
	found bool                       // deferred tools were found
	off   map[string]struct{}        // tools that are switched off
	// tools are those of toolsets, and those by which deferred ones are found and called.
	tools []cairn.Tool
	// listed are all that the model is sent.
	listed []cairn.Tool
}

// Offered returns the tools that the session has beside its agent's own and those that it is given: what toolsets offer, as
// the transcript has it pinned, and after it messages that were put before the model for the step under way; and those by
// which deferred tools are found and called.
func (l *Live) Offered(context []cairn.Message) []cairn.Tool {
	if !l.offers() {
		return nil
	}
	return l.offeredBy(context).tools
}

// Listed returns the tools that the model is sent with such messages, which are all that are not deferred.
func (l *Live) Listed(context []cairn.Message) []cairn.Tool { return l.offeredBy(context).listed }

// offers reports whether the session may have tools beside its agent's own and those that it is given.
func (l *Live) offers() bool { return len(l.Agent.Toolsets) > 0 || define.Defers(l.Agent) }

func (l *Live) offeredBy(context []cairn.Message) offered {
	pinned, found, off := l.pinned(context), l.Index.Found(), l.Index.Switched()
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := &l.offered; !o.made || o.found != found || !maps.Equal(off, o.off) || !maps.EqualFunc(pinned, o.from, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		*o = offered{made: true, from: pinned, found: found, off: maps.Clone(off)}
		if len(l.Agent.Toolsets) > 0 {
			o.tools, _ = define.Offered(l.Agent, l.Given, pinned) // logged when it was pinned
		}
		l.deferSome(o)
	}
	return l.offered
}

// deferSome works out which tools are listed. Once tools were found deferred ones stay off the list, whatever its size is, so
// that it does not come and go with what toolsets offer.
func (l *Live) deferSome(o *offered) {
	o.listed = slices.Concat(l.Agent.Tools, l.Given, o.tools)
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
	most, ok := define.DeferAbove(l.Agent)
	if ok && (o.found || transcript.TextTokens(size) > most) {
		off := o.off // as of now: the index changes, perhaps while a search is at work
		isOff := func(name string) bool { _, is := off[name]; return is }
		through := []cairn.Tool{define.Finder(hidden, isOff), define.Caller}
		o.tools = slices.Concat(o.tools, through)
		o.listed = append(slices.DeleteFunc(o.listed, define.IsDeferred), through...)
		return
	}
	o.tools = slices.Concat(o.tools, []cairn.Tool{define.Caller}) // a model may call what it found before as it did then
}

// pinned returns what the toolsets offer.
func (l *Live) pinned(context []cairn.Message) map[string]json.RawMessage {
	pinned, own := l.Index.Pinned(), false
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
