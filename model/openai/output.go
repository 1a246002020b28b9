package openai

import (
	"slices"

	"github.com/cairn-agents/cairn"
)

// output is an item of the output whose end has not been received.
type output struct {
	index   int
	id      string // the item's
	kind    string // type of the item; empty if it was not received
	spoke   bool   // whether it had text
	thought bool   // whether it had reasoning
	call    *call
	held    []cairn.Chunk // while an earlier item is open
	done    bool
}

// is reports whether an item of an event can be the end of the output.
func (o *output) is(it *item) bool {
	return (o.kind == "" || o.kind == it.Type) && (o.call == nil || it.CallID == "" || it.CallID == o.call.given)
}

// outputs are the open items, in the order in which they began. Some servers send the events of several items in any
// order. The parts of a reply follow each other, so what belongs to a later item is held until the earlier ones have
// ended. An event names its item by its id, its index or both: some servers give all items the same index, and some
// give an item another id in each event.
type outputs struct {
	list []*output
	any  bool // whether there was an item at all
}

// find returns the last open item that matches.
func (s *outputs) find(match func(*output) bool) *output {
	for _, o := range slices.Backward(s.list) {
		if !o.done && match(o) {
			return o
		}
	}
	return nil
}

func (s *outputs) add(o *output) *output {
	s.list, s.any = append(s.list, o), true
	return o
}

// of returns the item that an event with a piece of content belongs to, and begins it if there is none.
func (s *outputs) of(ev *event) *output {
	if ev.ItemID != "" {
		if o := s.find(func(o *output) bool { return o.id == ev.ItemID }); o != nil {
			return o
		}
	}
	if o := s.find(func(o *output) bool { return o.index == ev.OutputIndex }); o != nil {
		return o
	}
	return s.add(&output{index: ev.OutputIndex, id: ev.ItemID})
}

// began returns the item that an event begins.
func (s *outputs) began(ev *event, it *item) *output {
	o := s.find(func(o *output) bool {
		return o.is(it) && (it.ID != "" && o.id == it.ID || o.kind == "" && o.index == ev.OutputIndex)
	})
	if o == nil {
		o = s.add(&output{index: ev.OutputIndex, id: it.ID})
	}
	o.kind = it.Type
	return o
}

// ended returns the item that an event ends. It is still open.
func (s *outputs) ended(ev *event, it *item) *output {
	for _, match := range []func(*output) bool{
		func(o *output) bool { return o.call != nil && o.call.given == it.CallID },
		func(o *output) bool { return it.ID != "" && o.id == it.ID && o.is(it) },
		func(o *output) bool { return o.index == ev.OutputIndex && o.is(it) },
	} {
		if o := s.find(match); o != nil {
			return o
		}
	}
	return s.began(ev, it)
}

// open returns the items that have not ended.
func (s *outputs) open() []*output {
	return slices.DeleteFunc(slices.Clone(s.list), func(o *output) bool { return o.done })
}

// emit passes on a chunk of an item, or holds it.
func (r *reply) emit(o *output, c cairn.Chunk) error {
	if r.outputs.list[0] != o {
		o.held = append(o.held, c)
		return nil
	}
	return r.say(c)
}

// close ends an item, and passes on what was held until then. A call that never received arguments gets {}.
func (r *reply) close(o *output) error {
	if o.call != nil && !o.call.filled {
		if err := r.arguments(o, "{}"); err != nil {
			return err
		}
	}
	o.done = true
	for len(r.outputs.list) > 0 && r.outputs.list[0].done {
		r.outputs.list = r.outputs.list[1:]
		if len(r.outputs.list) == 0 {
			return nil
		}
		next := r.outputs.list[0]
		for _, c := range next.held {
			if err := r.say(c); err != nil {
				return err
			}
		}
		next.held = nil
	}
	return nil
}
