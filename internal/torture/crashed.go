package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
)

// way is how a message is sent to a session whose process is gone.
type way string

const (
	byReject    way = "reject"
	byEnqueue   way = "enqueue"
	bySteer     way = "steer"
	byInterrupt way = "interrupt"
	byResume    way = "resume"
	byRollback  way = "rollback"
)

// ways are all ways. The last one is for sessions without a family: the records of children of an undone run stay.
var ways = []way{byReject, byEnqueue, bySteer, byInterrupt, byResume, byRollback}

// stops reports whether a message stops the run that it finds.
func (w way) stops() bool { return w == byInterrupt || w == byRollback }

// send sends a message.
func (w way) send(ctx context.Context, eng *engine.Engine, id, text string) (*engine.Run, error) {
	if w == byResume {
		return eng.Resume(ctx, id, engine.WithInput(cairn.Text(text)))
	}
	busy := map[way]engine.OnBusy{byReject: engine.BusyReject, byEnqueue: engine.BusyEnqueue, bySteer: engine.BusySteer,
		byInterrupt: engine.BusyInterrupt, byRollback: engine.BusyRollback}[w]
	return eng.Execute(ctx, id, agentOf(id), cairn.Text(text), engine.WithOnBusy(busy))
}

// message sends messages to a session whose run a process has left behind: one before the lease has lapsed, as soon as
// the process is gone, and one after, unless a worker is faster. It records what it sends and what was acknowledged.
func (o *order) message(ctx context.Context, j *journal, st driver.Store, eng *engine.Engine, id string, rng *rand.Rand) error {
	type moment struct {
		token  int64
		lapsed bool
	}
	var last moment
	for n := 0; ; {
		if err := testclock.Pause(ctx, time.Duration(o.Pace*(2+rng.IntN(30)))*time.Millisecond); err != nil {
			return err
		}
		row, began, err := leftBehind(ctx, st, id)
		if err != nil {
			return err
		}
		if row == nil || last == (moment{row.Lease.Token, row.Crashed(row.AsOf)}) {
			continue
		}
		last = moment{row.Lease.Token, row.Crashed(row.AsOf)}
		among := ways
		if kindOf(row.Agent).waits {
			among = ways[:len(ways)-1]
		}
		w := among[rng.IntN(len(among))]
		r := record{Kind: sending, Session: id, Text: fmt.Sprintf("%s, left behind, %d", o.Name, n), Way: w}
		n++
		j.write(r)
		run, err := w.send(ctx, eng, id, r.Text)
		if err != nil && !contended(err) {
			return fmt.Errorf("message to session %s by %s: %w", id, w, err)
		}
		if err != nil || run == nil {
			continue
		}
		r.Kind, r.Queued = sent, run.ID()
		j.write(r)
		if w == byReject || w == byResume {
			if err := o.tooSoon(ctx, st, row, began); err != nil {
				return fmt.Errorf("message to session %s by %s was not refused: %w", id, w, err)
			}
		}
	}
}

// leftBehind returns the row of a session that is active and whose process is gone, and the time at which it began to
// read it. The row is nil for any other session.
func leftBehind(ctx context.Context, st driver.Store, id string) (row *cairn.Session, began time.Time, err error) {
	for range 2 { // the process may have released the run before its end
		began = time.Now()
		row, err = driver.Load(ctx, st, id)
		if errors.Is(err, cairn.ErrNotFound) || err != nil && contended(err) {
			return nil, began, nil
		}
		if err != nil {
			return nil, began, err
		}
		if row.Status != cairn.SessionActive || !row.Crashed(row.AsOf) && !gone(row.Lease.Owner) {
			return nil, began, nil
		}
	}
	return row, began, nil
}

// gone reports whether the process that a lease names does not exist any more.
func gone(owner string) bool {
	parts := strings.Split(owner, ":")
	if len(parts) < 3 {
		return false
	}
	pid, err := strconv.Atoi(parts[len(parts)-2])
	return err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// tooSoon returns an error if a run that a process left behind still holds its session: neither has it ended, nor has
// its lease lapsed. The host of another process may have driven it to its end.
func (o *order) tooSoon(ctx context.Context, st driver.Store, row *cairn.Session, began time.Time) error {
	if !o.Alone || row.Crashed(row.AsOf) {
		return nil
	}
	now, err := driver.Load(ctx, st, row.ID)
	if err != nil || now.RunID != row.RunID || now.Lease != row.Lease {
		return contention(err)
	}
	if now.Running(row.AsOf.Add(time.Since(began))) {
		return fmt.Errorf("run %s has the lease until %s: %+v", row.RunID, row.Lease.Until, *now)
	}
	return nil
}

// contention returns err, unless it is no fault.
func contention(err error) error {
	if err != nil && contended(err) {
		return nil
	}
	return err
}

// undone returns the runs that a message undid: a process was about to, and nothing of the run is left.
func (h *History) undone() map[string]bool {
	runs := map[string]bool{}
	for _, r := range h.Journal {
		if r.Kind == undoing {
			runs[r.Undone] = true
		}
	}
	for i := range h.Messages {
		delete(runs, h.Messages[i].RunID)
	}
	return runs
}

// undoneWith reports whether a message that joined a turn was undone with it. The log says so, as soon as it is
// complete.
func (h *History) undoneWith(queued string) bool {
	undone := h.undone()
	return undone[queued] || !h.logged() && len(undone) > 0 || slices.ContainsFunc(h.Events, func(ev cairn.Event) bool {
		return ev.Type == cairn.EventUserMessage && ev.MessageID == queued+"/in0" && undone[ev.RunID]
	})
}

// run returns the run of a commit; empty if it belongs to none.
func (r *record) run() string {
	if at := strings.LastIndexByte(r.Step, '/'); at >= 0 {
		return r.Step[:at]
	}
	return r.Ended
}

// messagesKept finds messages to sessions of dead processes that were acknowledged and are lost, or belong to another
// turn, and messages, acknowledged or not, that are there twice.
func messagesKept(h *History) error {
	turns := map[string][]string{} // by text: the turns of the messages with it
	for i := range h.Messages {
		m := &h.Messages[i]
		if m.Role != cairn.RoleUser || m.Hidden {
			continue
		}
		turn := m.RunID
		if queued, ok := joins(m); ok {
			turn = queued
		}
		turns[m.Text()] = append(turns[m.Text()], turn)
	}
	for _, q := range h.Queue {
		turns[q.Messages[0].Text()] = append(turns[q.Messages[0].Text()], q.ID)
	}
	out := h.takenOut()
	for _, r := range h.Journal {
		there := turns[r.Text]
		r.Queued = cmp.Or(h.queuedBy(r.Queued), r.Queued)
		switch {
		case r.Kind != sending && r.Kind != sent:
		case len(there) > 1:
			return fmt.Errorf("message %q, by %s, is there %d times", r.Text, r.Way, len(there))
		case r.Kind == sending:
		case len(there) == 1 && there[0] != r.Queued:
			return fmt.Errorf("message %q, by %s, was acknowledged as turn %s and is of turn %s", r.Text, r.Way, r.Queued, there[0])
		case len(there) == 0 && out[r.Queued] == "" && !h.undoneWith(r.Queued):
			return fmt.Errorf("message %q, by %s, was acknowledged as turn %s and is lost", r.Text, r.Way, r.Queued)
		}
	}
	return nil
}

// queuedBy returns the turn that the commit queued which began a run: a message that resumes a paused session waits
// there for the results of the calls. It is empty for other runs.
func (h *History) queuedBy(run string) string {
	at := slices.IndexFunc(h.Journal, func(r record) bool { return r.Kind == committed && r.Began == run && r.Queued != "" })
	if run == "" || at < 0 {
		return ""
	}
	return h.Journal[at].Queued
}

// rewindsCounted finds sessions whose epoch does not count the rewinds.
func rewindsCounted(h *History) error {
	begun, held := 0, 0
	for _, r := range h.Journal {
		switch {
		case r.Kind == undoing:
			begun++
		case r.Kind == committed && r.Undone != "":
			held++
		}
	}
	if n := int(h.Session.Epoch); n < held || n > begun {
		return fmt.Errorf("the session is in epoch %d, %d rewinds were acknowledged and %d begun", n, held, begun)
	}
	return nil
}
