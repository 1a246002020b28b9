package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var historyTests = []storeTest{
	{name: "1", run: func(h *harness) { randomHistory(h, 1) }},
	{name: "2", run: func(h *harness) { randomHistory(h, 2) }},
	{name: "3", run: func(h *harness) { randomHistory(h, 3) }},
}

// historian writes a random history to a store and to the model.
type historian struct {
	*harness
	random   *rand.Rand
	sessions []*modelSession
	last     map[string]*driver.Commit // the last step of each session
	removed  []modelRemoval
	purged   []string // ids of purged sessions
}

// modelRemoval is a session that was removed and not yet purged.
type modelRemoval struct {
	key, id     string
	checkpoints int
	session     *modelSession
}

// randomHistory drives a store through a random sequence of all operations that change sessions, and compares it with
// the model after each.
func randomHistory(h *harness, stream uint64) {
	seed := h.opts.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	h.Cleanup(func() {
		if h.Failed() {
			h.Logf("set Options.Seed to %d to see this history again", seed)
		}
	})
	g := &historian{harness: h, random: rand.New(rand.NewPCG(seed, stream)), last: map[string]*driver.Commit{}}
	verbs := []struct {
		name   string
		weight int
		do     func(*modelSession) bool
	}{
		{"begin", 8, g.begins}, {"step", 20, g.steps}, {"end", 5, g.ends}, {"append", 4, g.appends}, {"stage", 4, g.stages},
		{"rewind", 4, g.rewinds}, {"branch", 3, g.branches}, {"prune", 3, g.prunes}, {"repeat", 3, g.repeats}, {"stale", 3, g.isStale},
		{"bad", 2, g.isBad}, {"delete", 1, g.deletes}, {"remove", 2, g.removes}, {"purge", 1, g.purges}, {"restore", 1, g.restores},
		{"create", 2, g.creates},
		{"rewind run", 4, g.rewindsRun}, {"ask", 6, g.asks}, {"answer", 6, g.answers}, {"queue", 4, g.queues},
	}
	total := 0
	for _, v := range verbs {
		total += v.weight
	}
	g.creates(nil)
	for i := range h.rounds(200) {
		pick := g.random.IntN(total)
		v := 0
		for ; pick >= verbs[v].weight; v++ {
			pick -= verbs[v].weight
		}
		if len(g.sessions) == 0 {
			g.creates(nil)
		}
		m := g.sessions[g.random.IntN(len(g.sessions))]
		if verbs[v].do(m) {
			what := fmt.Sprintf("seed %d, move %d: %s", seed, i, verbs[v].name)
			for _, each := range g.sessions {
				if everything := i%50 == 49; everything || each == m {
					g.compare(each, what, everything)
				}
			}
		}
	}
	g.atTheEnd(seed)
}

// atTheEnd compares everything with the model, and so a copy if the store can import one.
func (g *historian) atTheEnd(seed uint64) {
	h := g.harness
	for _, m := range g.sessions {
		g.compare(m, fmt.Sprintf("seed %d, at the end", seed), true)
	}
	if h.opts.imports {
		to := h.other()
		for _, m := range g.sessions {
			to.imports(h, m.row.ID)
			to.compare(m, fmt.Sprintf("seed %d, copied at the end", seed), true)
		}
	}
	if !h.opts.sweeps {
		return
	}
	var got []modelRemoval
	for _, r := range g.harness.removed() {
		i := slices.IndexFunc(g.removed, func(m modelRemoval) bool { return m.key == r.Key })
		if i >= 0 && g.removed[i].id == r.SessionID {
			got = append(got, g.removed[i])
		}
	}
	if !slices.Equal(got, g.removed) {
		g.Fatalf("seed %d: removed at the end: %+v, want %+v", seed, got, g.removed)
	}
}

// write commits c to the store and the model.
func (g *historian) write(m *modelSession, c *driver.Commit) bool {
	g.Helper()
	row := g.commit(m.row.ID, c)
	g.grew(row, &m.row)
	m.row.Version = row.Version
	if c.Lease.Action == driver.LeaseTake {
		if row.Lease.Token <= m.row.Lease.Token {
			g.Fatalf("the lease of session %q was taken with the token %d after %d", row.ID, row.Lease.Token, m.row.Lease.Token)
		}
		m.row.Lease.Token = row.Lease.Token - 1 // the model takes it, too
	}
	if err := m.apply(c); err != nil {
		g.Fatalf("the model refuses: %v", err)
	}
	return true
}

func (g *historian) active(m *modelSession) bool { return m.row.Status == cairn.SessionActive }

func (g *historian) someMessages(most int) []cairn.Message {
	var texts []string
	for range g.random.IntN(most + 1) {
		texts = append(texts, g.newID("message"))
	}
	return says(texts...)
}

// someChange returns nil or a few random operations, with a keyframe if one is due or at random.
func (g *historian) someChange(m *modelSession) *driver.StateChange {
	g.Helper()
	var list []cairn.Op
	for range g.random.IntN(4) {
		name := string(rune('a' + g.random.IntN(4)))
		value := fmt.Sprintf("%q", strings.Repeat("v", g.random.IntN(800)))
		switch g.random.IntN(4) {
		case 0:
			list = append(list, deleteOp("/x/"+name))
		case 1:
			list = append(list, replaceOp("/x/"+name, value))
		default:
			list = append(list, appendOp("/list-"+name, value, fmt.Sprint(g.random.IntN(100))))
		}
	}
	if list == nil {
		return nil
	}
	change, err := driver.NewStateChange(g.load(m.row.ID).State, m.state(), list)
	g.must(err)
	if g.random.IntN(10) == 0 {
		change.Keyframe, err = driver.FoldState(m.state(), [][]cairn.Op{list})
		g.must(err)
	}
	return change
}

func (g *historian) creates(*modelSession) bool {
	id := g.newID("session")
	if n := len(g.purged); n > 0 && g.random.IntN(2) == 0 { // the id of a purged session
		id, g.purged = g.purged[n-1], g.purged[:n-1]
		delete(g.last, id)
	}
	state := fmt.Sprintf(`{"born":%q}`, id)
	g.add(newModelSession(id, json.RawMessage(state), nil), g.createWith(id, state))
	return false
}

// add adds a new session to the model.
func (g *historian) add(m *modelSession, row *cairn.Session) {
	m.row.Lease.Token, m.row.Incarnation = row.CreatedAt.UnixMicro(), row.Incarnation
	g.sessions = append(g.sessions, m)
}

func (g *historian) begins(m *modelSession) bool {
	if g.active(m) {
		return false
	}
	return g.write(m, beginCommit(g.newID("run"), g.newID("worker"), time.Hour))
}

func (g *historian) steps(m *modelSession) bool {
	if !g.active(m) {
		return false
	}
	c := g.stepCommit(&m.row, "")
	c.Messages, c.State = g.someMessages(3), g.someChange(m)
	c.LogSequence = g.random.Int64N(1000)
	c.Usage = cairn.Usage{ModelCalls: 1, OutputTokens: g.random.Int64N(1000)}
	c.DropStaged = g.random.IntN(2) == 0
	g.last[m.row.ID] = c
	return g.write(m, c)
}

func (g *historian) ends(m *modelSession) bool {
	return g.active(m) && g.write(m, endCommit(&m.row))
}

func (g *historian) appends(m *modelSession) bool {
	return g.write(m, &driver.Commit{Guard: driver.Guard{Version: m.row.Version}, Messages: g.someMessages(4), State: g.someChange(m)})
}

func (g *historian) stages(m *modelSession) bool {
	if !g.active(m) {
		return false
	}
	p := piece(g.newID("step"), "reply", `{"n":1}`)
	g.stage(&m.row, p)
	m.staged = append(m.staged, p)
	return true
}

func (g *historian) rewinds(m *modelSession) bool {
	if g.active(m) || len(m.checkpoints) == 0 {
		return false
	}
	c := &driver.Commit{Guard: driver.Guard{Idle: true}, Rewind: m.checkpoints[g.random.IntN(len(m.checkpoints))].ID, Status: cairn.SessionInterrupted, DropStaged: true}
	if g.random.IntN(3) == 0 {
		c.Messages = g.someMessages(2)
	}
	return g.write(m, c)
}

func (g *historian) branches(m *modelSession) bool {
	var at driver.BranchPoint
	switch g.random.IntN(3) {
	case 0:
		if len(m.checkpoints) == 0 {
			return false
		}
		at.CheckpointID = m.checkpoints[g.random.IntN(len(m.checkpoints))].ID
	case 1:
		if len(m.messages) == 0 {
			return false
		}
		n := g.random.IntN(len(m.messages))
		if m.pruned && (len(m.checkpoints) == 0 || n < m.checkpoints[0].MessageCount) {
			return false // the state of that time may be gone
		}
		at.Messages = &n
	}
	id := g.newID("branch")
	row, err := g.st.Branch(g.Context(), m.row.ID, at, &cairn.Session{ID: id, Agent: agentName})
	g.must(err)
	g.add(m.branch(at, id), row)
	g.compare(g.sessions[len(g.sessions)-1], "a new branch", true)
	return true
}

func (g *historian) prunes(m *modelSession) bool {
	keep := 1 + g.random.IntN(5)
	n, err := g.st.Prune(g.Context(), m.row.ID, keep)
	g.must(err)
	if want := m.prune(keep); n != want {
		g.Fatalf("prune to %d removed %d checkpoints, want %d", keep, n, want)
	}
	return true
}

// repeats commits a session's last step again.
func (g *historian) repeats(m *modelSession) bool {
	c := g.last[m.row.ID]
	if c == nil || !slices.ContainsFunc(m.checkpoints, func(cp modelCheckpoint) bool { return cp.ID == c.Checkpoint.ID }) {
		return false
	}
	_, err := g.st.Commit(g.Context(), m.row.ID, c)
	if token := c.Guard.Token; token != 0 && token != m.row.Lease.Token {
		g.wantConflict(err, cairn.ErrFenced, "the last step again, after another took the lease")
	} else {
		g.must(err)
	}
	return true
}

func (g *historian) isStale(m *modelSession) bool {
	c := g.everythingBut(&m.row)
	c.Guard = driver.Guard{Version: m.row.Version + 1 + g.random.Int64N(3)}
	_, err := g.st.Commit(g.Context(), m.row.ID, c)
	g.wantConflict(err, cairn.ErrStale, "a commit under another version")
	return true
}

func (g *historian) isBad(m *modelSession) bool {
	c := g.everythingBut(&m.row)
	c.Guard, c.Rewind = driver.Guard{}, "no such checkpoint"
	_, err := g.st.Commit(g.Context(), m.row.ID, c)
	g.wantError(err, cairn.ErrNotFound, "a rewind to nothing")
	return true
}

func (g *historian) deletes(m *modelSession) bool {
	err := g.st.Delete(g.Context(), m.row.ID)
	if g.active(m) {
		g.wantConflict(err, cairn.ErrAlreadyRunning, "deletion of a running session")
		return true
	}
	g.must(err)
	if _, err := driver.Load(g.Context(), g.st, m.row.ID); !errors.Is(err, cairn.ErrNotFound) {
		g.Fatalf("load of a deleted session: %v", err)
	}
	g.sessions = slices.DeleteFunc(g.sessions, func(each *modelSession) bool { return each == m })
	return false
}

func (g *historian) removes(m *modelSession) bool {
	if !g.opts.sweeps {
		return false
	}
	removed, err := g.sweeper().Remove(g.Context(), m.row.ID, driver.Deleted)
	if g.active(m) {
		g.wantConflict(err, cairn.ErrAlreadyRunning, "removal of a running session")
		return true
	}
	g.must(err)
	if g.content(m.row.ID) != nil {
		g.Fatalf("removed session %q is still there", m.row.ID)
	}
	g.removed = append(g.removed, modelRemoval{removed.Key, m.row.ID, len(m.checkpoints), m})
	g.sessions = slices.DeleteFunc(g.sessions, func(each *modelSession) bool { return each == m })
	return false
}

// restores restores one of the removed sessions.
func (g *historian) restores(*modelSession) bool {
	if len(g.removed) == 0 {
		return false
	}
	i := g.random.IntN(len(g.removed))
	_, err := driver.Create(g.Context(), g.st, &cairn.Session{ID: g.removed[i].id, Agent: agentName}, nil)
	g.wantError(err, cairn.ErrDeleted, "a new session of the id of one that was removed")
	m := g.removed[i].session
	m.row.Version = g.restore(m.row.ID).Version
	g.sessions = append(g.sessions, m)
	g.removed = slices.Delete(g.removed, i, i+1)
	return false
}

// purges purges one of the removed sessions, and must not affect the chosen one.
func (g *historian) purges(*modelSession) bool {
	if len(g.removed) == 0 {
		return false
	}
	i := g.random.IntN(len(g.removed))
	n, err := g.sweeper().Purge(g.Context(), g.removed[i].key)
	g.must(err)
	if n != g.removed[i].checkpoints {
		g.Fatalf("the purge of %+v removed %d checkpoints", g.removed[i], n)
	}
	g.purged = append(g.purged, g.removed[i].id)
	g.removed = slices.Delete(g.removed, i, i+1)
	return true
}
