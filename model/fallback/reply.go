package fallback

import (
	"cmp"
	"errors"
	"slices"

	"github.com/cairn-agents/cairn"
)

// reply passes on the reply of one model after another. What says nothing by itself is held until the reply begins, so
// that a model that fails before leaves no trace.
type reply struct {
	yield func(cairn.Chunk, error) bool
	shown bool   // the reader has a part of a reply, or what it has used
	why   string // the reader's part is void for this reason

	begun bool          // the reader has a part of the current reply
	model string        // the model that answers; empty for the requested one
	usage []cairn.Chunk // held
}

// errStopped reports that the reader of a stream wants no more of it.
var errStopped = errors.New("stopped")

// begin begins a reply. why is the reason why an earlier part of it is void.
func (r *reply) begin(why string) {
	if why != "" {
		r.why = why
	}
	r.begun, r.model, r.usage = false, "", nil
}

// broke returns the error of a reply that failed. What was passed on of it is void from now on.
func (r *reply) broke(one cairn.Model, err error) error {
	if r.begun {
		r.why = err.Error()
		return err
	}
	if stopped := r.void(one); stopped != nil {
		return stopped
	}
	return err
}

// void passes on what a reply has used that has not begun. Its error is errStopped.
func (r *reply) void(one cairn.Model) error {
	if r.begun || len(r.usage) == 0 {
		return nil
	}
	var list []cairn.Chunk
	if r.shown {
		list = append(list, cairn.Chunk{Type: cairn.ChunkRestart, Text: r.why})
	}
	for _, c := range r.usage {
		list = append(list, named(c, cmp.Or(r.model, one.Info().ID())))
	}
	r.shown, r.usage = true, nil
	return r.sendAll(list)
}

// named returns a report of usage in which each request has the name of its model.
func named(c cairn.Chunk, model string) cairn.Chunk {
	calls := slices.Clone(c.Calls)
	if len(calls) == 0 {
		calls = []cairn.ModelCall{{Usage: c.Usage}}
	}
	for i := range calls {
		calls[i].Model = cmp.Or(calls[i].Model, model)
	}
	c.Calls = calls
	return c
}

// add passes on a chunk. Its error is errStopped.
func (r *reply) add(c cairn.Chunk) error {
	switch {
	case r.begun:
		return r.send(c)
	case c.Type == cairn.ChunkModel: // from a fallback within this one
		r.model = c.Model
		return nil
	case c.Type == cairn.ChunkUsage:
		r.usage = append(r.usage, c)
		return nil
	}
	var list []cairn.Chunk
	if r.shown {
		list = append(list, cairn.Chunk{Type: cairn.ChunkRestart, Text: r.why})
	}
	if r.model != "" {
		list = append(list, cairn.Chunk{Type: cairn.ChunkModel, Model: r.model})
	}
	list = append(append(list, r.usage...), c)
	r.begun, r.shown = true, true
	return r.sendAll(list)
}

func (r *reply) sendAll(list []cairn.Chunk) error {
	for _, c := range list {
		if err := r.send(c); err != nil {
			return err
		}
	}
	return nil
}

func (r *reply) send(c cairn.Chunk) error {
	if !r.yield(c, nil) {
		return errStopped
	}
	return nil
}
