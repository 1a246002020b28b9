package driver

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ops"
)

// Update is the optimistic loop of the named operations: it loads a session, lets change build a commit for it, and
// applies that commit under the version it read. If another writer was faster it starts over, until ctx is done. Of
// concurrent writers one always succeeds, and the others back off. change may run several times. Its error ends the
// loop, and a nil commit means that there is nothing to write. Update must not be used to write steps: only the lease
// holder does that.
func Update(ctx context.Context, st Store, id string, change func(*cairn.Session) (*Commit, error)) (*cairn.Session, error) {
	for try := 0; ; try++ {
		if err := again(ctx, try); err != nil {
			return nil, err
		}
		s, err := Load(ctx, st, id)
		if err != nil {
			return nil, err
		}
		c, err := change(s)
		if err != nil || c == nil {
			return s, err
		}
		c.Guard.Version = s.Version
		row, err := st.Commit(ctx, id, c)
		if !errors.Is(err, cairn.ErrStale) {
			return row, err
		}
	}
}

// slowestRetry is the longest wait between two attempts.
const slowestRetry = 100 * time.Millisecond

// again waits before another attempt of Update, for a random time whose bound doubles with each attempt.
func again(ctx context.Context, try int) error {
	if try == 0 {
		return nil
	}
	timer := time.NewTimer(rand.N(min(time.Millisecond<<min(try, 10), slowestRetry)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Create creates a session; the error is ErrExists if it already exists. Exactly one of several concurrent creators
// succeeds.
func Create(ctx context.Context, st Store, s *cairn.Session, initialState []byte) (*cairn.Session, error) {
	return st.Commit(ctx, s.ID, &Commit{Guard: Guard{New: true}, Create: s, InitialState: initialState})
}

// AppendMessages adds messages to a session, whether or not it is running.
func AppendMessages(ctx context.Context, st Store, id string, messages ...cairn.Message) (*cairn.Session, error) {
	return Update(ctx, st, id, func(*cairn.Session) (*Commit, error) {
		return &Commit{Messages: messages}, nil
	})
}

// MergeState applies operations to a session's state, whether or not it is running. It neither knows the agent's state
// type, see [MergeStateOf], nor publishes the change: applications use Engine.SetState. For an operation that does not
// fit the state the error is ErrState and nothing is written.
func MergeState(ctx context.Context, st Store, id string, list ...cairn.Op) (*cairn.Session, error) {
	return MergeStateOf(ctx, st, id, nil, list...)
}

// MergeStateOf is [MergeState] for a state of a type. If the operations make the state one that cannot be
// decoded as typ, the error is ErrState and names the field, and nothing is written; otherwise the session's next run
// would fail. A nil typ permits any state.
func MergeStateOf(ctx context.Context, st Store, id string, typ *cairn.StateType, list ...cairn.Op) (*cairn.Session, error) {
	return Update(ctx, st, id, func(s *cairn.Session) (*Commit, error) {
		snap, err := State(ctx, st, id, "")
		if err != nil {
			return nil, err
		}
		// The state may be newer than s; then the commit is stale and the loop begins again.
		change, err := NewStateChange(s.State, snap, list)
		if err != nil {
			return nil, err
		}
		if typ != nil {
			after, err := ops.Fold(snap, list)
			if err == nil {
				err = typ.Check(after)
			}
			if err != nil {
				return nil, err
			}
		}
		return &Commit{State: change}, nil
	})
}

// CompareAndSetStatus sets a session's status if the current one is among from. ok reports whether it was. row is the
// session after the write, or as the store saw it if nothing was written.
func CompareAndSetStatus(ctx context.Context, st Store, id string, from []cairn.SessionStatus, to cairn.SessionStatus) (row *cairn.Session, ok bool, err error) {
	row, err = Update(ctx, st, id, func(s *cairn.Session) (*Commit, error) {
		ok = false
		for _, status := range from {
			ok = ok || s.Status == status
		}
		if !ok {
			return nil, nil
		}
		return &Commit{Status: to}, nil
	})
	return row, ok && err == nil, err
}

// SetContext changes a session's user id, title, tags, metadata or expiry, or archives it.
func SetContext(ctx context.Context, st Store, id string, change ContextChange) (*cairn.Session, error) {
	return Update(ctx, st, id, func(s *cairn.Session) (*Commit, error) {
		after := *s
		change.Apply(&after)
		if err := after.ValidateContext(); err != nil {
			return nil, err
		}
		return &Commit{Context: &change}, nil
	})
}

// Rewind moves a session that is not running back to one of its checkpoints. Its status becomes the result of
// [StatusAt]: a session rewound into a turn can be resumed from there, one rewound to the end of a completed turn
// cannot.
func Rewind(ctx context.Context, st Store, id, checkpointID string) (*cairn.Session, error) {
	return Update(ctx, st, id, func(*cairn.Session) (*Commit, error) {
		cp, err := FindCheckpoint(ctx, st, id, checkpointID)
		if err != nil {
			return nil, err
		}
		return RewindTo(ctx, st, id, cp)
	})
}

// RewindTo returns the commit of [Rewind]. It fits the version of the session that was read before the call.
func RewindTo(ctx context.Context, st Store, id string, cp *cairn.Checkpoint) (*Commit, error) {
	status, err := StatusAt(ctx, st, id, cp.MessageCount)
	if err != nil {
		return nil, err
	}
	return &Commit{Guard: Guard{Idle: true}, Rewind: cp.ID, Status: status, DropStaged: true}, nil
}

// StatusAt returns the status that a session has with only its first n messages and no run: idle without messages,
// completed if they end with a completed turn (see [cairn.Message.EndsTurn]), otherwise interrupted. Context that was
// added after the turn leaves it completed.
func StatusAt(ctx context.Context, st Store, id string, n int) (cairn.SessionStatus, error) {
	const page = 10
	for end := n; end > 0; end -= page {
		from := max(end-page, 0)
		list, err := Messages(ctx, st, id, from, end-from)
		if err != nil {
			return "", err
		}
		for i := len(list) - 1; i >= 0; i-- {
			if m := &list[i]; m.EndsTurn {
				return cairn.SessionCompleted, nil
			} else if !m.Hidden || m.RunID != "" {
				return cairn.SessionInterrupted, nil
			}
		}
	}
	if n > 0 {
		return cairn.SessionInterrupted, nil
	}
	return cairn.SessionIdle, nil
}
