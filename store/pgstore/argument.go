package pgstore

import (
	"regexp"
	"strconv"
	"time"
)

// statement is a text with named arguments and the functions that provide them.
type statement struct {
	text string // with numbers instead of names
	args []func(*write) any
}

// parameter is a named argument in the text of a statement.
var parameter = regexp.MustCompile(`@[a-z_]+`)

func newStatement(text string) *statement {
	s := &statement{}
	numbers := map[string]string{}
	s.text = parameter.ReplaceAllStringFunc(text, func(name string) string {
		if numbers[name] == "" {
			value := arguments[name[1:]]
			if value == nil {
				panic("pgstore: no argument " + name)
			}
			s.args = append(s.args, value)
			numbers[name] = "$" + strconv.Itoa(len(s.args))
		}
		return numbers[name]
	})
	return s
}

func (s *statement) values(w *write) []any {
	list := make([]any, len(s.args))
	for i, value := range s.args {
		list[i] = value(w)
	}
	return list
}

// arguments are the arguments of the statements of a commit, by name.
var arguments = map[string]func(*write) any{
	// Conditions.
	"key":     func(w *write) any { return w.key },
	"version": func(w *write) any { return w.d.Version },
	"token":   func(w *write) any { return w.d.Token },
	"lapsed":  func(w *write) any { return w.d.Lapsed },
	"root_id": func(w *write) any { return w.d.Row.RootID },

	// The head.
	"next_version":   func(w *write) any { return w.d.Row.Version },
	"next_token":     func(w *write) any { return w.d.Row.Lease.Token },
	"run_id":         func(w *write) any { return w.d.Row.RunID },
	"suspended_step": func(w *write) any { return w.d.Row.SuspendedStep },
	"status":         func(w *write) any { return string(w.d.Row.Status) },
	"head_data":      func(w *write) any { return w.headData },
	"lease_kept":     func(w *write) any { return w.d.LeaseUntil.Kept },
	"lease_in":       func(w *write) any { return from(w.d.LeaseUntil) },
	"lease_ttl":      func(w *write) any { return leaseTTL(w.d) },
	"deadline":       func(w *write) any { return timestamp(w.d.Row.NextDeadline) },
	"due":            func(w *write) any { return string(w.d.Due) },
	"due_kept":       func(w *write) any { return w.d.DueAt.Kept },
	"due_at":         func(w *write) any { return timestamp(w.d.DueAt.At) },
	"due_in":         func(w *write) any { return from(w.d.DueAt) },
	"log_sequence":   func(w *write) any { return w.d.Row.LogSequence },
	"drop_stop":      func(w *write) any { return orNull(w.d.DropStop, w.d.DropStop != "") },

	// The log. The last two are of a delta that is written already.
	"log":        func(w *write) any { return w.d.Row.Log() },
	"events":     func(w *write) any { return int64(len(w.d.Events)) },
	"event_data": func(w *write) any { return w.events },
	"undated":    func(w *write) any { return w.undated },
	"fence":      func(w *write) any { return w.d.Fence },
	"beside":     func(w *write) any { return w.d.Beside },
	"written":    func(w *write) any { return w.left.key },
	"written_at": func(w *write) any { return w.left.row.UpdatedAt },

	// The columns of sessions.
	"id":           func(w *write) any { return w.id },
	"agent":        func(w *write) any { return w.d.Row.Agent },
	"context":      func(w *write) any { return w.d.Context },
	"user_id":      func(w *write) any { return w.d.Row.UserID },
	"tags":         func(w *write) any { return append([]string{}, w.d.Row.Tags...) },
	"metadata":     func(w *write) any { return metadataText(w.d.Row.Metadata) },
	"expires_at":   func(w *write) any { return timestamp(w.d.Row.ExpiresAt) },
	"archived_at":  func(w *write) any { return timestamp(w.d.ArchivedAt.At) },
	"archived_in":  func(w *write) any { return from(w.d.ArchivedAt) },
	"sweep_at":     func(w *write) any { return timestamp(w.d.SweepAt.At) },
	"sweep_in":     func(w *write) any { return from(w.d.SweepAt) },
	"ttl":          func(w *write) any { return orNull(time.Duration(w.d.Row.TTL), w.d.Row.TTL > 0) },
	"title":        func(w *write) any { return w.d.Row.Title },
	"opening":      func(w *write) any { return w.d.Row.Opening },
	"opening_at":   func(w *write) any { return int64(w.d.Row.OpeningAt) },
	"words":        func(w *write) any { return words(w.d.Row) },
	"trace_parent": func(w *write) any { return w.d.Row.TraceParent },
	"thread_id":    func(w *write) any { return w.d.Row.ThreadID },
	"parent_id":    func(w *write) any { return w.d.Row.ParentID },
	"incarnation":  func(w *write) any { return w.d.Row.Incarnation },
	"kind":         func(w *write) any { return string(w.d.Row.Kind) },
	"name":         func(w *write) any { return w.d.Row.Name },
	"secret":       func(w *write) any { return w.d.Row.Secret },
	"initial":      func(w *write) any { return string(w.d.Initial) },

	// Messages and state.
	"first_message": func(w *write) any { return int64(w.d.FirstMessage) },
	"messages":      func(w *write) any { return w.messages },
	"message_turn": func(w *write) any {
		if !w.ownMessages() {
			return nil
		}
		return int64(w.d.Row.Turn)
	},
	"message_runs":   func(w *write) any { return w.messageRuns() },
	"state_position": func(w *write) any { return w.d.Row.State.Position },
	"keyframe":       func(w *write) any { return w.d.State != nil && w.d.State.Keyframe },
	"state": func(w *write) any {
		if w.d.State == nil {
			return nil
		}
		return string(w.d.State.Data)
	},
	"drop_staged": func(w *write) any { return w.d.DropStaged },
	"usage":       func(w *write) any { return orNull(w.usage, w.d.Usage != nil) },

	// The checkpoint.
	"checkpoint":          checkpoint(func(w *write) any { return w.checkpoint.id }),
	"checkpoint_key":      checkpoint(func(w *write) any { return &w.checkpoint.key }),
	"checkpoint_step_key": checkpoint(func(w *write) any { return w.checkpoint.ofStep() }),
	"checkpoint_number":   checkpoint(func(w *write) any { return w.d.Checkpoint.Number }),
	"checkpoint_turn":     checkpoint(func(w *write) any { return int64(w.d.Checkpoint.Turn) }),
	"checkpoint_step":     checkpoint(func(w *write) any { return int64(w.d.Checkpoint.Step) }),
	"checkpoint_messages": checkpoint(func(w *write) any { return int64(w.d.Checkpoint.MessageCount) }),
	"checkpoint_state":    checkpoint(func(w *write) any { return w.d.Checkpoint.StatePosition }),
	"checkpoint_log":      checkpoint(func(w *write) any { return w.d.Checkpoint.LogSequence }),
	"checkpoint_step_id":  checkpoint(func(w *write) any { return w.checkpoint.stepID }),
	"checkpoint_run":      checkpoint(func(w *write) any { return w.checkpoint.run }),

	// The runs that begin and end.
	"start_run":        start(func(w *write) any { return w.d.StartRun.ID }),
	"start_turn":       start(func(w *write) any { return int64(w.d.StartRun.Turn) }),
	"start_sequence":   start(func(w *write) any { return w.d.StartRun.StartSequence }),
	"start_message":    start(func(w *write) any { return int64(w.d.StartRun.FirstMessage) }),
	"start_checkpoint": start(func(w *write) any { return w.d.StartRun.Before.CheckpointID }),
	"start_state":      start(func(w *write) any { return w.d.StartRun.Before.StatePosition }),
	"start_data":       start(func(w *write) any { return w.startData }),
	"end_run":          end(func(w *write) any { return w.d.EndRun.ID }),
	"end_over":         func(w *write) any { return w.d.RunOver },
	"end_data":         end(func(w *write) any { return w.endData }),
	"end_text_at":      func(w *write) any { return int64(w.d.TextAt) },

	// The queue and the cache.
	"enqueue": func(w *write) any {
		if w.d.Enqueue == nil {
			return nil
		}
		return w.d.Enqueue.ID
	},
	"enqueue_data": func(w *write) any { return w.turnData },
	"dequeue":      func(w *write) any { return w.d.Dequeue },
	"cache_key":    func(w *write) any { return w.cache.keys },
	"cache_data":   func(w *write) any { return w.cache.data },
	"cache_drop":   func(w *write) any { return w.d.CacheDrop },

	// The calls, by column.
	"call_id":            func(w *write) any { return w.calls.id },
	"call_seen":          func(w *write) any { return w.calls.seen },
	"call_deadline":      func(w *write) any { return w.calls.deadline },
	"call_claimed_until": func(w *write) any { return w.calls.claimedUntil },
	"call_claimed_by":    func(w *write) any { return w.calls.claimedBy },
	"call_step":          func(w *write) any { return w.calls.step },
	"call_tool":          func(w *write) any { return w.calls.tool },
	"call_kind":          func(w *write) any { return w.calls.kind },
	"call_status":        func(w *write) any { return w.calls.status },
	"call_reviewers":     func(w *write) any { return w.calls.reviewers },
	"call_data":          func(w *write) any { return w.calls.data },
}

// checkpoint, start and end provide arguments from a part that a commit may not have.
func checkpoint(value func(*write) any) func(*write) any {
	return func(w *write) any {
		if w.d.Checkpoint == nil {
			return nil
		}
		return value(w)
	}
}

func start(value func(*write) any) func(*write) any {
	return func(w *write) any {
		if w.d.StartRun == nil {
			return nil
		}
		return value(w)
	}
}

func end(value func(*write) any) func(*write) any {
	return func(w *write) any {
		if w.d.EndRun == nil {
			return nil
		}
		return value(w)
	}
}
