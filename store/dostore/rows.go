package dostore

import (
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
)

// rows collects the rows of a write to a session. Its first error stays.
type rows struct {
	request
	owner string
	at    time.Time
	err   error
}

// put adds a row with the JSON of a value.
func (r *rows) put(owner, key, what string, v any) (text string) {
	text, err := backend.EncodeJSON(what, v)
	if err != nil && r.err == nil {
		r.err = err
	}
	r.text(owner, key, text)
	return text
}

func (r *rows) text(owner, key, text string) { r.Put = append(r.Put, [3]string{owner, key, text}) }

func (r *rows) expect(owner, key string, version int64) {
	r.If = append(r.If, condition{owner, key, version})
}

// clear removes the session's rows of a kind from a key on.
func (r *rows) clear(kind, from string) {
	r.Clear = append(r.Clear, [3]string{r.owner, from, after(kind)})
}

// stop adds the change of a session's stop request, for the directory.
func (r *rows) stop(id string, before, after *cairn.Stop) {
	switch {
	case after != nil:
		text, err := backend.EncodeJSON("stop request", after)
		if err != nil && r.err == nil {
			r.err = err
		}
		r.Share = append(r.Share, shared{Source: sourceOfStop(id), Value: &text, Lists: [][2]string{{allStops, id}}, Wake: allStops})
	case before != nil:
		r.Share = append(r.Share, shared{Source: sourceOfStop(id)})
	}
}

// checkpoint adds a checkpoint.
func (r *rows) checkpoint(cp *cairn.Checkpoint) {
	key := numbered("checkpoint", cp.Number)
	r.put(r.owner, key, "checkpoint", cp)
	r.text(r.owner, "named/"+cp.ID, key)
	if cp.StepID != "" {
		r.text(r.owner, "step/"+cp.StepID, key)
	}
}

// head adds the head, for the object and for the directory.
func (r *rows) head(h *head) {
	text, err := h.encode()
	if err != nil && r.err == nil {
		r.err = err
	}
	r.text(r.owner, headKey, text)
	r.Share = append(r.Share, h.share(text))
}

// life adds the life of the tree of a root, if it differs from the one before, for the object and for the directory.
func (r *rows) life(root string, l, before *life) {
	if l.SweepAt.Equal(before.SweepAt) && l.Removed == before.Removed {
		return
	}
	text := r.put(ofTree, "life", "life of a session", l)
	stale := shared{Source: sourceOfStale(root)}
	if !l.SweepAt.IsZero() && l.Removed == nil {
		stale.Value, stale.Lists = &text, [][2]string{{staleTrees, timed(l.SweepAt, root)}}
	}
	removal := shared{Source: sourceOfRemoval(root)}
	if l.Removed != nil {
		removal.Value, removal.Lists = &text, [][2]string{{removals, timed(l.Removed.RemovedAt, l.Removed.Key)}}
	}
	r.Share = append(r.Share, stale)
	if l.Removed != nil || before.Removed != nil {
		r.Share = append(r.Share, removal)
	}
}
