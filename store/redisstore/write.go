package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/fastjson"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

var (
	scriptWrite = keyed("write", "commit", grows)
	scriptEnd   = keyed("write", "commit", frees) // for commits that a full server takes
)

// write is one commit on its way to the server.
type write struct {
	db  *database
	log *Log
	id  string
	c   *driver.Commit
	// attempt identifies a commit that has neither a step nor a run, in case it is sent twice.
	attempt string
	// copied are the messages, in stored form, that a branch takes from another session.
	copied []any

	at       *storedRow // the row as known; nil if unknown or if there is none
	known    storedRow  // memory for at
	after    storedRow  // the row as the delta leaves it, without its open times
	view     plan.Seen  // memory for seen
	happened *bool      // whether the commit was applied before, if that was read with the row
	origin   statePlace // of the state that a rewind goes back to
	d        *plan.Delta
	said     []cairn.Run // whose texts are in messages that the delta cuts
}

func (w *write) seen() *plan.Seen {
	w.view = plan.Seen{ID: w.id}
	if w.at != nil {
		w.view.Row, w.view.Checkpoints = w.at.session, w.at.checkpoints
	}
	return &w.view
}

// absent reports whether an error means that no session has the id, not even a removed one.
func absent(err error) bool {
	var missing *cairn.Error
	return errors.As(err, &missing) && missing.Code == cairn.ErrNotFound && missing.Field == "session"
}

// keys returns the run and the step that identify the commit. Each is empty if there is none.
func (w *write) keys() (run, step string) {
	if w.c.StartRun != nil {
		run = w.c.StartRun.ID
	}
	if w.c.Checkpoint != nil {
		step = w.c.Checkpoint.StepID
	}
	return run, step
}

// refused drops the row that the delta expected and takes at, the one that the server has.
func (w *write) refused(at *storedRow) {
	w.db.known.Drop(w.id)
	w.at, w.happened = at, nil
}

// fillAfter computes the row that the delta leaves.
func (w *write) fillAfter() {
	r := &w.after
	*r = storedRow{}
	if w.at != nil {
		*r = *w.at
	}
	d := w.d
	r.session, r.checkpoints, r.kind = d.Row, d.Checkpoints, string(d.Due)
	if d.Row.Status == cairn.SessionActive {
		r.kind = string(driver.DueCrashed)
	}
	if d.Cut != nil {
		r.frame = w.origin.frame
	}
	if d.State != nil && d.State.Keyframe {
		r.frame = d.State.Position
	}
	if d.Enqueue != nil {
		r.turns++
	}
}

// rows writes any delta. A nil row without an error means that its conditions did not hold.
func (w *write) rows(ctx context.Context) (*cairn.Session, error) {
	if w.d.Cut != nil {
		version, runs, err := w.db.said(ctx, w.id, w.d.Cut.Messages)
		if err != nil || version != string(w.at.version(nil)) {
			w.refused(nil)
			return nil, err
		}
		w.said = runs
	}
	cmd := newCommand()
	defer cmd.free()
	if err := w.encode(cmd); err != nil {
		return nil, err
	}
	sc := scriptWrite
	if w.ends() {
		sc = scriptEnd
	}
	r, err := w.send(ctx, sc, cmd.finish(sc, noKey, nil))
	switch {
	case err != nil && absent(err):
		w.refused(nil)
		if w.c.Create == nil {
			return nil, err
		}
		return nil, nil
	case err != nil:
		return nil, err
	case len(r) == 1:
		return w.written(ctx, scriptWrite, r.word())
	case r.word() == "dropped":
		return nil, driver.Dropped(w.d.Row.Log())
	case r.word() == "taken":
		return nil, cairn.Invalid("checkpoint", "session %q already has checkpoint %q", w.id, w.d.Checkpoint.ID)
	}
	list := r.list(1)
	if len(list) == 0 || list[0] == nil { // a call of the tree has the id of a call of the new session
		return nil, driver.CallConflict(w.d.Row, r.text(2))
	}
	at, err := readStored(w.id, list)
	if err != nil {
		return nil, err
	}
	w.refused(at)
	if r.word() == "again" {
		w.db.remember(at)
		w.thereAlready(at.session)
		return at.session, nil
	}
	return nil, nil
}

// ends reports whether the commit ends a run, releases a lease or removes things, and begins nothing. A full server
// takes it: what it adds, such as the results of calls that were cut off, is little and ends what would add more.
func (w *write) ends() bool {
	c := w.c
	if c.Create != nil || c.StartRun != nil || c.Checkpoint != nil || c.State != nil || c.Enqueue != nil || c.Context != nil || len(c.Cache) > 0 {
		return false
	}
	if c.EndRun != nil || c.Lease.Action == driver.LeaseRelease {
		return true
	}
	removes := c.Rewind != "" || c.RewindRun != "" || len(c.Dequeue) > 0 || len(c.CacheDrop) > 0 || c.DropStaged || c.Drained > 0
	return removes && len(c.Messages) == 0 && len(c.Calls) == 0 && c.Lease.Action != driver.LeaseTake
}

// send runs the write. A new session is created in its root's bucket.
func (w *write) send(ctx context.Context, sc *script, command []any) (reply, error) {
	d := w.db
	if !w.d.New || len(d.buckets) == 1 {
		return d.askCommand(ctx, sc, w.id, command)
	}
	home := d.bucketOf(w.d.Row.RootID)
	if _, known := d.routes.get(w.id); !known && home != d.bucketOf(w.id) {
		if err := d.claim(ctx, w.id, home, false); err != nil {
			return nil, err
		}
	}
	r, err := d.askCommand(ctx, sc, w.id, command)
	if absent(err) {
		// The note of its bucket is of a session that was never created, or that was deleted.
		if err = d.claim(ctx, w.id, home, true); err == nil {
			r, err = d.askCommand(ctx, sc, w.id, command)
		}
	}
	return r, err
}

// encode adds the arguments of write.lua.
func (w *write) encode(cmd *command) error {
	d, row := w.d, w.d.Row
	if d.OnceRun == "" && d.OnceStep == "" && w.attempt == "" {
		w.attempt = rand.Text()
	}
	cmd.text(w.id)
	if d.New {
		cmd.text("")
		cmd.number(row.Version)
	} else {
		cmd.add(w.at.version(cmd.data))
		cmd.add(w.after.version(cmd.data))
	}
	cmd.words(row.RootID, w.attempt)
	if d.New && len(w.db.buckets) > 1 {
		cmd.text(w.db.buckets[w.db.bucketOf(row.RootID)])
	} else {
		cmd.text("")
	}
	openHead, openBase := 0, 0
	if d.New {
		openHead, openBase = 1, 1
	}
	if undated(w.boxed()) {
		openHead++
	}
	if d.ArchivedAt.Open {
		openBase++
	}
	cmd.add(w.after.head(cmd.data, openHead, d.Places()))
	if d.Context {
		data, err := packBase(cmd.data, row, row.Secret, openBase)
		if err != nil {
			return err
		}
		cmd.add(data)
	} else {
		cmd.text("")
	}
	w.conditions(cmd)
	cmd.text("")
	if len(d.Events) > 0 {
		if d.Places() {
			cmd.text("events")
		} else {
			cmd.text("events beside")
		}
		if err := w.events(cmd); err != nil {
			return err
		}
	}
	for _, add := range [...]func(*write, *command) error{(*write).content, (*write).history, (*write).waiting} {
		if err := add(w, cmd); err != nil {
			return err
		}
	}
	w.times(cmd)
	return nil
}

// conditions adds the conditions other than the version.
func (w *write) conditions(cmd *command) {
	d := w.d
	if d.Lapsed {
		cmd.text("lapsed")
	}
	if d.OnceRun != "" {
		cmd.text("absent")
		cmd.two("r:", w.id)
		cmd.two("o", d.OnceRun)
	}
	if d.OnceStep != "" {
		cmd.text("absent")
		cmd.two("c:", w.id)
		cmd.two("s", d.OnceStep)
	}
	if d.Cut != nil {
		cmd.text("cut")
		cmd.number(int64(d.Cut.Messages))
		cmd.number(d.Cut.State)
		cmd.number(w.origin.frame)
		cmd.number(d.Cut.Checkpoint)
	}
	if d.Checkpoint != nil {
		cmd.words("checkpoint", d.Checkpoint.ID)
	}
	for i := range d.Calls {
		cmd.words("call", d.Calls[i].Row.ID)
		cmd.number(d.Calls[i].Seen)
	}
	if len(d.Events) > 0 {
		cmd.words("log", d.Row.Log())
	}
}

// times adds the row's times, and the indexes that depend on them.
func (w *write) times(cmd *command) {
	d, row := w.d, w.d.Row
	now := plan.Time{Open: true}
	if d.New {
		cmd.words("serves", row.Agent)
		cmd.words("base", "created")
		cmd.time(now)
		cmd.words("head", "token")
		w.token(cmd)
	}
	if d.Fence {
		cmd.text("fence")
		w.token(cmd)
	}
	if undated(w.boxed()) {
		cmd.words("head", "outbox_at")
		cmd.time(now)
	}
	if d.ArchivedAt.Open {
		cmd.words("base", "archived")
		cmd.time(d.ArchivedAt)
	}
	if !d.LeaseUntil.Kept {
		cmd.text("till")
		cmd.time(d.LeaseUntil)
		cmd.number(time.Duration(row.Lease.TTL).Microseconds())
	}
	if d.DropStop != "" {
		cmd.words("stop", d.DropStop)
	}
	before, kind := "", w.after.kind
	if w.at != nil {
		before = w.at.kind
	}
	switch {
	case row.Status == cairn.SessionActive:
		if before != kind || !d.LeaseUntil.Kept {
			cmd.text("due at the end of the lease")
		}
	case kind == "" && before != "":
		cmd.text("never due")
	case kind != "" && (!d.DueAt.Kept || before != kind):
		cmd.text("due")
		if d.DueAt.Kept {
			cmd.time(now)
		} else {
			cmd.time(d.DueAt)
		}
		cmd.text(kind)
	}
	if !d.SweepAt.Kept {
		cmd.text("sweep")
		cmd.time(d.SweepAt)
	}
}

// token adds the row's fencing token, as a time: that of a new session is one.
func (w *write) token(cmd *command) {
	token := w.d.Row.Lease.Token
	if w.d.New {
		cmd.time(plan.Time{Open: true, In: time.Duration(token) * time.Microsecond})
		return
	}
	cmd.number(token)
	cmd.text("")
}

// content adds the session's messages and state, and the indexes that list it.
func (w *write) content(cmd *command) error {
	d, row := w.d, w.d.Row
	if d.New {
		for _, name := range listed(row, d.Archived()) {
			cmd.text("score")
			cmd.two("i:", name)
			cmd.words("", w.id)
		}
		cmd.text("append")
		cmd.two("f:", w.id)
		cmd.words("1", string(d.Initial))
	} else if d.Context {
		w.relist(cmd)
	}
	if len(w.copied) > 0 {
		cmd.text("append")
		cmd.two("m:", w.id)
		cmd.number(int64(len(w.copied)))
		for _, message := range w.copied {
			cmd.text(plain(message))
		}
	}
	if err := w.messages(cmd); err != nil {
		return err
	}
	if d.State != nil {
		cmd.text("append")
		cmd.two("f:", w.id)
		cmd.text("1")
		cmd.add(append(cmd.data, d.State.Data...))
	}
	if d.DropStaged {
		cmd.text("remove")
		cmd.two("g:", w.id)
	}
	return w.addUsage(cmd)
}

// relist moves a session between the indexes of users' sessions.
func (w *write) relist(cmd *command) {
	old, row := w.at.session, w.d.Row
	before, after := ofUser(old, !old.ArchivedAt.IsZero()), ofUser(row, w.d.Archived())
	for _, name := range before {
		if !slices.Contains(after, name) {
			cmd.text("unscore")
			cmd.two("i:", name)
			cmd.text(w.id)
		}
	}
	for _, name := range after {
		if !slices.Contains(before, name) {
			cmd.text("score")
			cmd.two("i:", name)
			cmd.number(row.CreatedAt.UnixMicro())
			cmd.text(w.id)
		}
	}
}

// messages adds the new messages, in groups of consecutive ones with, or without, a time of their own.
func (w *write) messages(cmd *command) error {
	list := w.c.Messages
	for len(list) > 0 {
		dated := !list[0].CreatedAt.IsZero()
		n := 1
		for n < len(list) && !list[n].CreatedAt.IsZero() == dated {
			n++
		}
		if dated {
			cmd.text("append")
		} else {
			cmd.text("dated")
		}
		cmd.two("m:", w.id)
		cmd.number(int64(n))
		for i := range list[:n] {
			data, err := appendMessage(cmd.data, &list[i])
			if err != nil {
				return err
			}
			cmd.add(data)
		}
		list = list[n:]
	}
	return nil
}

// set adds a write of a hash's field. The caller adds the value.
func (w *write) set(cmd *command, hash, kind, field string, dated bool) {
	cmd.text("set")
	cmd.two(hash, w.id)
	cmd.two(kind, field)
	if dated {
		cmd.text("+")
	} else {
		cmd.text("")
	}
}

// place is set for a value that has the time before it and, if the delta Places, gets a sequence of the log. The caller
// then adds what precedes and what follows the sequence.
func (w *write) place(cmd *command, word, hash, kind, field string) {
	if !w.d.Places() {
		w.set(cmd, hash, kind, field, true)
		return
	}
	cmd.text(word)
	cmd.two(hash, w.id)
	cmd.two(kind, field)
}

// json adds an argument that is JSON.
func (c *command) json(what string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return cairn.Errorf(cairn.ErrInvalid, "encode %s: %w", what, err)
	}
	c.add(append(c.data, raw...))
	return nil
}

// history adds runs and the checkpoint.
func (w *write) history(cmd *command) error {
	d := w.d
	for i := range w.said {
		w.set(cmd, "r:", "d", w.said[i].ID, false)
		data, err := appendEnded(cmd.data, &w.said[i], 0)
		if err != nil {
			return err
		}
		cmd.add(data)
	}
	if d.EndRun != nil {
		w.set(cmd, "r:", "d", d.EndRun.ID, d.RunOver)
		data, err := appendRun(cmd.data, w.c.EndRun, d.RunOver, d.TextAt)
		if err != nil {
			return err
		}
		cmd.add(data)
	}
	if run := d.StartRun; run != nil {
		w.set(cmd, "r:", "d", run.ID, false)
		data, err := appendRun(cmd.data, w.c.StartRun, false, 0)
		if err != nil {
			return err
		}
		cmd.add(data)
		w.place(cmd, "set before", "r:", "o", run.ID)
		if d.Places() {
			cmd.add(openOrigin(cmd.data, run))
			cmd.add(closeOrigin(cmd.data, run))
		} else {
			cmd.add(appendOrigin(cmd.data, run))
		}
		cmd.text("append")
		cmd.two("o:", w.id)
		cmd.words("1", run.ID)
	}
	if cp := d.Checkpoint; cp != nil {
		w.set(cmd, "c:", "s", cp.StepID, false)
		cmd.text("")
		w.place(cmd, "set last", "c:", "c", cp.ID)
		if d.Places() {
			cmd.add(openCheckpoint(cmd.data, cp, &w.after))
			cmd.text("]")
		} else {
			cmd.add(appendCheckpoint(cmd.data, cp, &w.after))
		}
		cmd.text("append")
		cmd.two("n:", w.id)
		cmd.words("1", cp.ID)
	}
	return nil
}

// waiting adds the pending calls, the queue and the cache.
func (w *write) waiting(cmd *command) error {
	d := w.d
	for i := range d.Calls {
		call := &d.Calls[i]
		cmd.words("call", call.Row.ID)
		cmd.number(call.Seen)
		cmd.text(call.Row.StepID)
		about := fastjson.Text(cmd.data, w.id)
		about = fastjson.Text(append(about, ','), call.Row.UserID)
		cmd.add(fastjson.Text(append(about, ','), call.Row.Agent))
		if err := cmd.json("call", callIndexes(&call.Row)); err != nil {
			return err
		}
		cmd.number(micros(call.Row.Deadline))
		text, err := backend.EncodeCall(&w.c.Calls[i].Call)
		if err != nil {
			return err
		}
		cmd.text(text)
	}
	if d.Enqueue != nil {
		text, err := backend.EncodeJSON("queued turn", d.Enqueue)
		if err != nil {
			return err
		}
		w.set(cmd, "q:", "", d.Enqueue.ID, false)
		cmd.two(strconv.FormatInt(w.after.turns, 10)+":", text)
	}
	for _, id := range d.Dequeue {
		w.unset(cmd, "q:", id)
	}
	for i := range d.Cache {
		w.set(cmd, "h:", "", d.Cache[i].Key, false)
		if err := cmd.json("cached result", &d.Cache[i]); err != nil {
			return err
		}
	}
	for _, key := range d.CacheDrop {
		w.unset(cmd, "h:", key)
	}
	return nil
}

// unset adds the removal of a hash's field.
func (w *write) unset(cmd *command, hash, field string) {
	cmd.text("unset")
	cmd.two(hash, w.id)
	cmd.text(field)
}
