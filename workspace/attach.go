package workspace

import (
	"context"
	"errors"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store/driver"
)

// pinned is the data of an offer.
type pinned struct {
	// Base is the reference of the files that the session began with; empty for none.
	Base string `json:"base,omitempty"`
	// Tools are the names of the tools that the model knows, without the prefix.
	Tools []string `json:"tools"`
}

// visit is the use of a session's directory by one call.
type visit struct {
	*checkout
	w    *Workspace
	s    *session
	call *cairn.Call
	ref  reference
	// notes are what the result says besides.
	notes []string
}

// visit calls fn with the session's files in the state that the call's session names. If changes is true, fn may change
// them: then a snapshot follows, which the call's result names, unless fn fails with an error that is not about a path or
// the input.
func (w *Workspace) visit(ctx context.Context, call *cairn.Call, p pinned, changes bool, fn func(v *visit) (string, error)) (string, error) {
	id := directoryID(call.SessionID, call.Incarnation)
	s, err := w.enter(ctx, id)
	if err != nil {
		return "", err
	}
	defer w.leave(id, s)
	v := &visit{w: w, s: s, call: call, checkout: &checkout{dir: s.dir, info: w.info, blobs: w.blobs, limits: w.opts.Limits,
		owner: driver.BlobOwner{Root: call.RootID, Incarnation: call.Incarnation}}}
	text := call.Workspace()
	if text == "" {
		text = p.Base
	}
	if v.ref, err = parseReference(text); err != nil {
		return "", err
	}
	if err := v.attach(ctx, text); err != nil {
		return "", err
	}
	if changes {
		if err := v.dir.SetNote(treeNote, nil); err != nil {
			return "", err
		}
		s.ref, s.unsaved = "", false
	}
	out, failed := fn(v)
	if failed != nil && !ofInput(failed) {
		return "", failed
	}
	if changes {
		if err := v.keep(ctx); err != nil {
			return "", err
		}
	}
	if failed != nil {
		return "", failed
	}
	for _, note := range v.notes {
		out = strings.TrimSuffix(out, "\n") + "\n[" + note + "]"
	}
	return out, nil
}

// ofInput reports whether an error is the model's fault: the files are as the function has left them.
func ofInput(err error) bool {
	return isPathError(err) || errors.Is(err, cairn.ErrInvalid) || errors.Is(err, cairn.ErrTooLarge)
}

// attach brings the files into the state of a reference.
func (v *visit) attach(ctx context.Context, text string) error {
	if v.s.ref == text && v.s.ref != "" {
		return nil // commands in the background may have changed files since: the next snapshot has these changes
	}
	ended := v.s.end()
	v.s.unsaved = false
	note, err := v.dir.Note(treeNote)
	if err != nil {
		return err
	}
	fresh := false
	if note == nil || string(note) != text {
		known, err := v.dir.Note(indexNote)
		if err != nil {
			return err
		}
		fresh = known == nil
		if err := v.dir.SetNote(treeNote, nil); err != nil {
			return err
		}
		err = v.restore(ctx, v.ref.root, false)
		if from := v.ref.owner; errors.Is(err, cairn.ErrNotFound) && from.Root != "" && from != v.owner {
			// It is a branch, and not all blobs were named for it when it was made.
			if err = nameAll(ctx, v.blobs, from, v.owner); err == nil {
				err = v.restore(ctx, v.ref.root, false)
			}
		}
		if err != nil {
			return err
		}
		if v.ref.unsaved != "" {
			v.notes = append(v.notes, "The workspace is as of its last snapshot: it was too large for later ones, and their changes are lost.")
		}
		if err := v.dir.SetNote(treeNote, []byte(text)); err != nil {
			return err
		}
	}
	v.s.ref = text
	if fresh && v.call.Workspace() != "" && v.info.Commands() {
		v.notes = append(v.notes, "The workspace was restored in a new sandbox: commands that ran in the background have ended, and files outside of it are gone.")
	} else if ended > 0 {
		v.notes = append(v.notes, "Commands that ran in the background have ended, since the workspace was restored.")
	}
	return nil
}

// nameAll names all blobs of an owner for another one.
func nameAll(ctx context.Context, blobs driver.Blobs, from, to driver.BlobOwner) error {
	for q := (driver.BlobQuery{}); ; {
		page, err := blobs.List(ctx, from, q)
		if err != nil {
			return err
		}
		var keys []string
		for _, row := range page.Items {
			keys = append(keys, row.Key)
		}
		if len(keys) > 0 {
			if err := blobs.Name(ctx, from, to, keys...); err != nil {
				return err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// keep takes a snapshot, and names it in the call's result.
func (v *visit) keep(ctx context.Context) error {
	next := reference{owner: v.owner}
	busy := v.s.busy(0) // before the snapshot, which may lack the last changes of a command that ends meanwhile
	root, left, err := v.snapshot(ctx)
	switch {
	case errors.Is(err, cairn.ErrTooLarge):
		next.root, next.unsaved = v.ref.root, ids.Short()
		v.notes = append(v.notes, cairn.AsError(err).Message+". Its changes are only on this machine until it is smaller.")
	case err != nil:
		return err
	default:
		next.root = root
	}
	if text := left.String(); text != "" {
		v.notes = append(v.notes, text)
	}
	if err := v.call.SetWorkspace(next.String()); err != nil {
		return err
	}
	v.s.ref = next.String()
	if v.s.unsaved = busy; busy {
		return nil // the files may change before the next call
	}
	return v.dir.SetNote(treeNote, []byte(v.s.ref))
}

// Branched implements [cairn.Workspace].
func (w *Workspace) Branched(ctx context.Context, _ string, from, to *cairn.Session) error {
	return nameAll(ctx, w.blobs, driver.OwnerOfBlobs(from), driver.OwnerOfBlobs(to))
}
