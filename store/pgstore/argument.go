package pgstore

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// argument returns the value of a named argument of the commit's statement.
func (w *write) argument(name string) any {
	c := w.c
	switch name {
	case "id":
		return w.id
	case "version":
		return c.Guard.Version
	case "token":
		return c.Guard.Token
	case "agent":
		return c.Guard.Agent
	case "step":
		return int64(c.Step)
	case "recovered":
		return number01(c.Recovered)
	case "message_count":
		return int64(len(c.Messages))
	case "message_data":
		return w.messages
	case "state_bytes":
		return int64(len(w.state))
	case "state_data":
		return w.state
	case "state_changes":
		return number01(c.State != nil)
	case "keyframe":
		return c.State.Keyframe != nil
	case "log_sequence":
		return c.LogSequence
	case "usage":
		return w.usage
	case "usage_custom":
		return w.custom
	case "owner":
		return c.Lease.Owner
	case "ttl":
		return c.Lease.TTL
	case "status":
		return orNull(string(c.Status), c.Status != "")
	}
	for _, group := range []func(string) (any, bool){w.recordArgument, w.knownArgument, w.waitArgument, w.calls.argument} {
		if v, ok := group(name); ok {
			return v
		}
	}
	return w.newArgument(name)
}

// recordArgument returns the arguments of the runs and the checkpoint that a commit writes.
func (w *write) recordArgument(name string) (any, bool) {
	c := w.c
	switch name {
	case "checkpoint":
		return c.Checkpoint.ID, true
	case "checkpoint_step":
		return int64(c.Checkpoint.Step), true
	case "checkpoint_step_id":
		return c.Checkpoint.StepID, true
	case "checkpoint_run":
		return c.Checkpoint.RunID, true
	case "checkpoint_log":
		return c.Checkpoint.LogSequence, true
	case "start_run":
		return c.StartRun.ID, true
	case "start_sequence":
		return c.StartRun.StartSequence, true
	case "start_data":
		return w.startData, true
	case "end_run":
		return c.EndRun.ID, true
	case "end_over":
		return c.EndRun.Status != cairn.RunRunning, true
	case "end_data":
		return w.endData, true
	}
	return nil, false
}

// knownArgument returns the arguments of a session whose owner is known.
func (w *write) knownArgument(name string) (any, bool) {
	switch name {
	case "key":
		return w.known.key, true
	case "context":
		return w.known.context, true
	case "root":
		return w.known.row.RootID, true
	case "user":
		return w.known.row.UserID, true
	case "next_usage":
		return usageList(&w.next.Usage), true
	case "next_run_usage":
		return usageList(&w.next.RunUsage), true
	case "known_agent":
		return w.known.row.Agent, true
	}
	return nil, false
}

// waitArgument returns the arguments of what waiting changes.
func (w *write) waitArgument(name string) (any, bool) {
	c := w.c
	suspend := c.Suspend
	if suspend == nil {
		suspend = &store.Suspend{}
	}
	switch name {
	case "suspends":
		return c.Suspend != nil, true
	case "suspended_step":
		return orNull(suspend.StepID, c.Suspend != nil), true
	case "open_calls":
		return orNull(int64(suspend.OpenCalls), c.Suspend != nil), true
	case "next_deadline":
		return timestamp(suspend.NextDeadline), true
	case "deadline_in":
		return orNull(suspend.DeadlineIn, suspend.DeadlineIn > 0), true
	case "more":
		return int64(w.more), true
	case "turn_id":
		return c.Enqueue.ID, true
	case "turn_data":
		return w.turnData, true
	case "dequeue":
		return c.Dequeue, true
	case "cache_key":
		return w.cache.keys, true
	case "cache_data":
		return w.cache.data, true
	case "cache_drop":
		return c.CacheDrop, true
	}
	return nil, false
}

// newArgument returns the arguments of a session that is created, and those of its user context, which it shares with a
// change of that.
func (w *write) newArgument(name string) any {
	if w.created == nil {
		return w.context.argument(name)
	}
	row := w.created
	switch name {
	case "new_agent":
		return row.Agent
	case "user_id":
		return row.UserID
	case "tags":
		return append([]string{}, row.Tags...)
	case "metadata":
		return mapText(row.Metadata)
	case "expires_at":
		return timestamp(row.ExpiresAt)
	case "idle_ttl":
		return orNull(row.TTL, row.TTL > 0)
	case "trace_parent":
		return row.TraceParent
	case "parent_id":
		return row.ParentID
	case "root_id":
		return row.RootID
	case "name":
		return row.Name
	case "incarnation":
		return row.Incarnation
	case "secret":
		return row.Secret
	case "initial":
		return w.initial
	}
	return w.newHeadArgument(name)
}

func (w *write) newHeadArgument(name string) any {
	row := w.created
	switch name {
	case "new_turn":
		return int64(row.Turn)
	case "new_checkpoints":
		return number01(w.c.Checkpoint != nil)
	case "new_log_sequence":
		return row.LogSequence
	case "new_token":
		return row.Lease.Token
	case "new_position":
		return row.State.Position
	case "new_keyframe":
		return row.State.KeyframeBytes
	case "new_changes":
		return row.State.ChangeBytes
	case "new_open_calls":
		return int64(row.OpenCalls)
	case "new_queued":
		return int64(w.more)
	case "new_ttl":
		held := w.c.Lease.Action == store.LeaseTake || w.c.Lease.Action == store.LeaseRenew
		return orNull(w.c.Lease.TTL, held)
	case "new_due":
		queued := *row
		queued.Queued = w.more
		return string(store.DueKindOf(&queued))
	case "new_status":
		return string(row.Status)
	case "new_run":
		return row.RunID
	case "new_checkpoint":
		return row.CheckpointID
	case "new_owner":
		return row.Lease.Owner
	case "new_suspended_step":
		return row.SuspendedStep
	}
	panic("pgstore: no argument " + name) // a statement names what is not there
}

func number01(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// orNull is v, or null.
func orNull[T any](v T, is bool) *T {
	if !is {
		return nil
	}
	return &v
}
