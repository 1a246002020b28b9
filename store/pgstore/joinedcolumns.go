package pgstore

import "time"

// joinedColumns are the arguments of joined and joinedLogged.
type joinedColumns struct {
	heads struct {
		key, version, token, nextToken, nextVersion []int64
		root, run, status, data                     []string
		logSequence                                 []int64
		leaseIn, leaseTTL                           []*time.Duration
		dropStop                                    []*string
		dropStaged                                  []bool
	}
	messages struct {
		session, number, turn []int64 // turn is 0 for none
		run                   []*string
		data                  []string
	}
	checkpoints struct {
		session, key, number, turn, step, messages, state, log []int64
		stepKey                                                []*int64
		id, stepID                                             []string
		run                                                    []*string
	}
	states struct {
		session, position []int64
		keyframe          []bool
		data              []string
	}
	starts struct {
		session, turn, sequence, message, state []int64
		id, checkpoint, data                    []string
	}
	ends struct {
		session, textAt []int64
		id, data        []string
		over            []bool
	}
	usage struct {
		session          []int64
		root, user, data []string
	}
	places struct { // of the events; one for each head
		log   []*string // nil for a step without events
		count []int64
		fence []bool
		id    []string
	}
	events struct {
		session []int64
		undated []bool
		data    [][]byte
	}
}

// newJoinedColumns returns columns with capacity for the given number of steps, with two messages each.
func newJoinedColumns(steps int) *joinedColumns {
	x := &joinedColumns{}
	h, m, c := &x.heads, &x.messages, &x.checkpoints
	room(steps, &h.key, &h.version, &h.token, &h.nextToken, &h.nextVersion, &h.logSequence)
	room(steps, &h.root, &h.run, &h.status, &h.data)
	room(steps, &h.leaseIn, &h.leaseTTL)
	room(steps, &h.dropStop)
	room(steps, &h.dropStaged)
	room(2*steps, &m.session, &m.number, &m.turn)
	room(2*steps, &m.run)
	room(2*steps, &m.data)
	room(steps, &c.session, &c.key, &c.number, &c.turn, &c.step, &c.messages, &c.state, &c.log)
	room(steps, &c.stepKey)
	room(steps, &c.id, &c.stepID)
	room(steps, &c.run)
	u := &x.usage
	room(steps, &u.session)
	room(steps, &u.root, &u.user, &u.data)
	p, e := &x.places, &x.events
	room(steps, &p.log)
	room(steps, &p.count, &e.session)
	room(steps, &p.fence, &e.undated)
	room(steps, &p.id)
	room(steps, &e.data)
	return x
}

func room[T any](n int, lists ...*[]T) {
	for _, list := range lists {
		*list = make([]T, 0, n)
	}
}

// add adds the rows of a step.
func (x *joinedColumns) add(w *write) {
	d, row := w.d, w.d.Row
	h := &x.heads
	h.key, h.version, h.token = append(h.key, w.key), append(h.version, d.Version), append(h.token, d.Token)
	h.nextVersion, h.logSequence = append(h.nextVersion, row.Version), append(h.logSequence, row.LogSequence)
	h.nextToken, h.root, h.run = append(h.nextToken, row.Lease.Token), append(h.root, row.RootID), append(h.run, row.RunID)
	h.status, h.data = append(h.status, string(row.Status)), append(h.data, w.headData)
	h.leaseIn, h.dropStop = append(h.leaseIn, from(d.LeaseUntil)), append(h.dropStop, orNull(d.DropStop, d.DropStop != ""))
	h.dropStaged, h.leaseTTL = append(h.dropStaged, d.DropStaged), append(h.leaseTTL, leaseTTL(d))
	var turn int64
	if w.ownMessages() {
		turn = int64(row.Turn)
	}
	runs := w.messageRuns()
	for i, data := range w.messages {
		m := &x.messages
		m.session, m.number, m.turn = append(m.session, w.key), append(m.number, int64(d.FirstMessage+i)), append(m.turn, turn)
		m.data = append(m.data, data)
		var run *string
		if runs != nil {
			run = runs[i]
		}
		m.run = append(m.run, run)
	}
	if p := d.State; p != nil {
		s := &x.states
		s.session, s.position = append(s.session, w.key), append(s.position, p.Position)
		s.keyframe, s.data = append(s.keyframe, p.Keyframe), append(s.data, string(p.Data))
	}
	if d.Usage != nil {
		u := &x.usage
		u.session, u.root = append(u.session, w.key), append(u.root, row.RootID)
		u.user, u.data = append(u.user, row.UserID), append(u.data, w.usage)
	}
	x.addRecords(w)
	x.addEvents(w)
}

func (x *joinedColumns) addEvents(w *write) {
	d, p, e := w.d, &x.places, &x.events
	has := len(d.Events) > 0
	p.log, p.count = append(p.log, orNull(d.Row.Log(), has)), append(p.count, int64(len(d.Events)))
	p.fence, p.id = append(p.fence, d.Fence), append(p.id, w.id)
	if has {
		e.session, e.undated, e.data = append(e.session, w.key), append(e.undated, w.undated), append(e.data, w.events)
	}
}

// logged reports whether there are events.
func (x *joinedColumns) logged() bool { return len(x.events.session) > 0 }

func (x *joinedColumns) addRecords(w *write) {
	if cp := w.d.Checkpoint; cp != nil {
		c := &x.checkpoints
		c.session, c.number, c.turn = append(c.session, w.key), append(c.number, cp.Number), append(c.turn, int64(cp.Turn))
		c.step, c.messages = append(c.step, int64(cp.Step)), append(c.messages, int64(cp.MessageCount))
		c.state, c.log = append(c.state, cp.StatePosition), append(c.log, cp.LogSequence)
		names := &w.checkpoint
		c.key, c.stepKey = append(c.key, names.key), append(c.stepKey, names.ofStep())
		c.id, c.stepID, c.run = append(c.id, names.id), append(c.stepID, names.stepID), append(c.run, names.run)
	}
	if run := w.d.StartRun; run != nil {
		s := &x.starts
		s.session, s.turn, s.id = append(s.session, w.key), append(s.turn, int64(run.Turn)), append(s.id, run.ID)
		s.sequence, s.message = append(s.sequence, run.StartSequence), append(s.message, int64(run.FirstMessage))
		s.checkpoint, s.state = append(s.checkpoint, run.Before.CheckpointID), append(s.state, run.Before.StatePosition)
		s.data = append(s.data, w.startData)
	}
	if run := w.d.EndRun; run != nil {
		e := &x.ends
		e.session, e.id = append(e.session, w.key), append(e.id, run.ID)
		e.over, e.data, e.textAt = append(e.over, w.d.RunOver), append(e.data, w.endData), append(e.textAt, int64(w.d.TextAt))
	}
}

// values returns the arguments in their order.
func (x *joinedColumns) values() []any {
	h, m, c, s, r, e := &x.heads, &x.messages, &x.checkpoints, &x.states, &x.starts, &x.ends
	list := []any{
		h.key, h.version, h.token, h.nextToken, h.root, h.run, h.status, h.data, h.leaseIn, h.dropStop, h.dropStaged,
		m.session, m.number, m.turn, m.run, m.data,
		c.session, c.key, c.stepKey, c.number, c.turn, c.step, c.messages, c.state, c.log, c.id, c.stepID, c.run,
		s.session, s.position, s.keyframe, s.data,
		r.session, r.turn, r.id, r.sequence, r.message, r.checkpoint, r.state, r.data,
		e.session, e.id, e.over, e.data,
		h.nextVersion, h.leaseTTL, h.logSequence, e.textAt,
		x.usage.session, x.usage.root, x.usage.user, x.usage.data,
	}
	if x.logged() {
		p, v := &x.places, &x.events
		list = append(list, p.log, p.count, p.fence, p.id, v.session, v.undated, v.data)
	}
	return list
}
