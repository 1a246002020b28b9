package lifecycle

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/store/driver"
)

// beginTries bounds how often a begin is repeated because the session changed concurrently.
const beginTries = 16

// begin begins a run on a session: on the one in memory, which costs no read, or on what the store has if that is
// newer. on begins it, and gets which of the two it is. create, if it is not nil, creates a session that does not
// exist.
func (r *Runs) begin(ctx context.Context, in *NewRun, on func(l *session.Live, cached bool) error, create func() (*session.Live, error)) (turn.Begun, error) {
	defer r.Cache.Expect(in.SessionID, in.RunID)() // other processes see the run before this one has it in memory
	l, err := r.beginOn(ctx, in.SessionID, on, create)
	return r.part(ctx, l, err)
}

func (r *Runs) beginOn(ctx context.Context, id string, on func(l *session.Live, cached bool) error, create func() (*session.Live, error)) (*session.Live, error) {
	known, current := r.Cache.Take(id)
	if current {
		err := on(known, true)
		if !r.outdated(err) && !refused(err) {
			return known, err
		}
	}
	var err error
	for range beginTries {
		var l *session.Live
		l, err = r.read(ctx, id, known)
		switch {
		case err == nil:
		case errors.Is(err, cairn.ErrNotFound) && create != nil:
			if l, err = create(); errors.Is(err, cairn.ErrExists) { // another process has created it meanwhile
				continue
			}
			return l, err
		default:
			return nil, err
		}
		err = on(l, false)
		erased := create != nil && errors.Is(err, cairn.ErrNotFound) && !errors.As(err, new(foreignError))
		if !erased && !r.outdated(err) {
			return l, err
		}
	}
	return nil, err
}

// outdated reports whether a begin failed because the session in memory is not the one in the store: the session has
// changed, it is another session of the same id, or another process has driven it since and crashed.
func (r *Runs) outdated(err error) bool {
	if died := (*DiedError)(nil); errors.As(err, &died) {
		return false
	}
	if seen := driver.Seen(err); seen != nil && errors.Is(err, cairn.ErrAlreadyRunning) {
		return seen.Crashed(seen.AsOf)
	}
	return errors.Is(err, cairn.ErrStale) || errors.Is(err, cairn.ErrFenced)
}

// DiedError means that a session's run is to be recovered, not resumed: its process has died.
type DiedError struct{ SessionID string }

// Error names the session.
func (e *DiedError) Error() string {
	return "session \"" + e.SessionID + "\": its process died"
}

// Unwrap makes it an ErrStale, since the session is not in the state that the caller expected.
func (e *DiedError) Unwrap() error { return cairn.ErrStale }

// refused reports whether a begin was rejected because of the session's state, or because the session is gone. If the
// session came from the cache, the begin is repeated on what the store has.
func refused(err error) bool {
	for _, target := range []error{cairn.ErrNotResumable, cairn.ErrState, cairn.ErrInvalid, cairn.ErrNotFound, cairn.ErrNotRunning, cairn.ErrWaiting, cairn.ErrOutdated} {
		if errors.Is(err, target) {
			return true
		}
	}
	return errors.As(err, new(*RepeatedError))
}

// read loads a session from the store. known is an earlier state of it in this process's memory, or nil.
func (r *Runs) read(ctx context.Context, id string, known *session.Live) (*session.Live, error) {
	var err error
	if known != nil {
		if known, err = known.Fork(); err != nil { // it may be copied concurrently
			return nil, err
		}
		known.Run = nil
	}
	l, _, err := r.Refresh(ctx, id, "", known)
	return l, err
}

// Refresh returns the session as the store has it, and what was read of it, including a run if one is named. known is
// an earlier state of the session that the caller owns, or nil. With it only the last known message and newer ones are
// read, unless the store has lost writes since, such as a promoted replica: then what it has counts.
func (r *Runs) Refresh(ctx context.Context, id, runID string, known *session.Live) (*session.Live, *driver.Contents, error) {
	read := func(from int) (*driver.Contents, error) {
		want := driver.ToDrive(from)
		want.Run = runID
		return r.Store.Read(ctx, id, want)
	}
	if known != nil {
		snap, err := read(max(known.End()-1, 0)) // the last known message shows whether the store still has the others
		if err != nil {
			return nil, nil, err
		}
		if known.GrewInto(snap) {
			return known, snap, known.Grow(snap, r.Now())
		}
		if known.SameAs(snap.Session) && snap.Session.Summary.From < max(known.End(), 1) {
			r.StoreBehind.Add(1)
			r.Logger.Warn("store has lost writes; continuing with what it has", "session", id, "messages", snap.Session.MessageCount, "messages_known", known.End())
		}
	}
	snap, err := read(0)
	if err != nil {
		return nil, nil, err
	}
	l, err := session.New(snap, r.Now())
	return l, snap, err
}

// part returns a run that was begun or recovered. If effects are remote it also releases the session from memory. This
// process may have taken the run over from itself in the meantime.
func (r *Runs) part(ctx context.Context, l *session.Live, err error) (turn.Begun, error) {
	if err != nil || l == nil {
		return turn.Begun{}, err
	}
	b := l.Begun()
	if !r.Remote() {
		return b, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.LeaseTTL)
	defer cancel()
	r.Cache.Drop(l)
	defer l.Emit.Close()
	if err := l.Emit.Flush(ctx); err != nil {
		r.Logger.Warn("begin of a run not published; its first effect publishes it", "session", b.SessionID, "run", b.RunID, "error", err)
	}
	base, err := l.Fork()
	if err != nil {
		return turn.Begun{}, err
	}
	r.Cache.Keep(base)
	return b, nil
}
