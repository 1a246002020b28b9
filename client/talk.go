package client

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
)

// errLeft reports that the caller no longer reads the reply.
var errLeft = errors.New("left")

// talk is one call of an agent on another server. It brings the session there, whatever its state, to where it
// waits or has ended, and streams what the agent says on the way.
type talk struct {
	m *remote
	*request
	yield func(cairn.Chunk, error) bool

	from string // the events of the session's own runs count from this run on; empty for all
	// fresh reports whether this call has neither begun nor continued anything yet: a run found failed or stopped
	// then is an earlier one.
	fresh   bool
	refused map[string]string
	final   *cairn.Event // the end of the last run

	kept   []said       // pieces of the steps before the one under way
	step   []said       // pieces of the step under way
	at     *cairn.Event // the last event of the session's own
	passed int          // the number of forwarded events of the agent's tools and agents
	open   cairn.PartType
	spoke  bool           // whether the reply has a text already
	cited  []*cairn.Event // with the sources for the end of the current text, or of the next one
	files  []drawn        // files of replies that are not in this reply yet
	usage  cairn.Usage
	result json.RawMessage
}

// said is a piece of the reply, kept in case the reply begins again. The text of one piece arrives in many chunks,
// which are appended to its text.
type said struct {
	cairn.Chunk
	text []byte
	of   *cairn.Event // what it came with; nil once its step is committed
}

// drawn is a file of a reply on the other server: the n-th file of a message.
type drawn struct {
	index     int
	messageID string
	n         int
	ref       cairn.FileRef
}

// run brings the session to a halt and ends the reply.
func (t *talk) run(ctx context.Context) error {
	t.fresh, t.refused = true, map[string]string{}
	wait, since := pauses{}, time.Now()
	for {
		over, err := t.advance(ctx)
		switch {
		case errors.Is(err, errLeft):
			return err
		case ctx.Err() != nil:
			return t.m.stopped(ctx)
		case over && err == nil:
			return t.finish()
		case err == nil:
			wait, since = pauses{}, time.Now()
			continue
		case errors.Is(err, errAgain) && time.Since(since) > t.m.patience:
			return cairn.Errorf(cairn.ErrModelRequest, "agent %s: its session on the remote server neither continues nor ends", t.m.agent)
		case errors.Is(err, errAgain):
			err = nil
		case !passing(err) || rateLimited(err) && t.fresh || time.Since(since) > t.m.patience:
			return t.m.lost(err)
		}
		if err := wait.sleep(ctx, err); err != nil {
			return err
		}
	}
}

// rateLimited reports whether an error is a rate limit. It is left to the agent's retry policy if nothing has begun
// yet.
func rateLimited(err error) bool { return errors.Is(err, &cairn.Error{Code: cairn.ErrRateLimited}) }

// errAgain requests another look at the session after a pause.
var errAgain = errors.New("again")

// advance brings the session one step further. over reports that it waits or has ended.
func (t *talk) advance(ctx context.Context) (over bool, err error) {
	if t.fresh {
		if err := t.enter(ctx); err != nil {
			return false, err
		}
	}
	st, err := t.m.client.Status(ctx, t.Session)
	if err != nil {
		return false, err
	}
	row := st.Session
	switch {
	case row.Status == cairn.SessionActive && st.Resumable.Resume, row.Status == cairn.SessionPaused && st.Resumable.Resume:
		return false, t.resume(ctx)
	case row.Status == cairn.SessionActive:
		return false, t.follow(ctx, row.RunID)
	}
	if row.RunID == "" {
		return false, errAgain
	}
	if t.Ended != row.RunID {
		if err := t.follow(ctx, row.RunID); err != nil {
			return false, err
		}
		if t.Ended != row.RunID { // the stream was silent
			return false, errAgain
		}
	}
	if err := t.fetch(ctx); err != nil {
		return false, err
	}
	switch row.Status {
	case cairn.SessionPaused:
		if len(st.Calls) == 0 {
			return false, errAgain
		}
		for i := range st.Calls {
			if why, ok := t.refused[st.Calls[i].ID]; ok {
				return false, cairn.Errorf(cairn.ErrModelRequest, "the answer to call %q was refused: %s", st.Calls[i].Tool, why)
			}
		}
		return true, t.ask(st.Calls)
	case cairn.SessionFailed:
		return false, t.failure(ctx)
	case cairn.SessionInterrupted:
		return false, cairn.Errorf(cairn.ErrModelRequest, "it was stopped before it finished")
	}
	return true, nil
}

// enter performs the action of the call: it begins the turn, forwards answers, or makes the session continue. It
// can be repeated.
func (t *talk) enter(ctx context.Context) error {
	c := t.m.client
	st, err := c.Status(ctx, t.Session)
	switch {
	// A session that is gone is an error if the conversation there is lost with it.
	case err != nil && (!errors.Is(err, cairn.ErrNotFound) || t.input == nil || isGone(err) || t.Ended != ""):
		return err
	case t.input != nil:
		return t.begin(ctx, st)
	}
	for _, s := range t.answers {
		receipt, err := c.Submit(ctx, t.Session, s)
		switch {
		case errors.Is(err, cairn.ErrNotFound) && !isGone(err): // the call was closed there
		case errors.Is(err, cairn.ErrInvalid):
			t.refused[s.CallID] = err.Error()
		case err != nil:
			return err
		case receipt.Outcome == cairn.OutcomeInvalid:
			t.refused[s.CallID] = "it does not match the call"
		}
	}
	t.fresh = false
	if len(t.answers) > 0 {
		return nil
	}
	t.from = st.Session.RunID
	return t.again(ctx, st)
}

// startGrace is how much longer a request that begins a run may take after it was cancelled.
const startGrace = 2 * time.Second

// unhurried sends a request that begins a run. It outlives ctx for a while, so that a stop that follows knows what
// has begun. If the server accepted the request after that stop, the stop would have found nothing to stop.
func unhurried[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(startGrace):
			cancel()
		case <-own.Done():
		}
	})()
	return request(own)
}

func isGone(err error) bool {
	return errors.Is(err, cairn.ErrDeleted) || errors.Is(err, cairn.ErrExpired)
}

// begin begins the turn. st is nil if the session does not exist yet.
func (t *talk) begin(ctx context.Context, st *Status) error {
	c, name := t.m.client, t.turn
	turn := Turn{SessionID: t.Session, Agent: t.m.agent, Input: *t.input, RunID: name, Context: Context{Depth: t.depth}, Unready: Unready{OnWaiting: "withdraw"}}
	started, err := unhurried(ctx, func(ctx context.Context) (*Started, error) { return c.Start(ctx, turn) })
	// The run is one of a turn that was stopped here.
	if errors.Is(err, cairn.ErrAlreadyRunning) && st != nil && st.Session.Status == cairn.SessionActive {
		if err := c.Interrupt(ctx, t.Session, st.Session.RunID, "replaced by another turn"); err != nil && !errors.Is(err, cairn.ErrNotRunning) {
			return err
		}
		return errAgain
	}
	switch {
	case errors.Is(err, cairn.ErrAlreadyRunning):
		return errAgain
	case err != nil:
		return err
	case t.first && started.Turn > 1:
		return cairn.Errorf(cairn.ErrExists, "session %q already exists for another conversation", t.Session)
	}
	t.from, t.fresh = started.RunID, false
	if st == nil || st.Session.RunID != started.RunID {
		return nil
	}
	return t.again(ctx, st) // begun by an earlier call
}

// again continues a run that failed or was stopped before this call.
func (t *talk) again(ctx context.Context, st *Status) error {
	var started *Started
	var err error
	switch {
	case st.Resumable.Retry:
		started, err = unhurried(ctx, func(ctx context.Context) (*Started, error) { return t.m.client.Retry(ctx, t.Session) })
	case st.Session.Status == cairn.SessionInterrupted && st.Resumable.Resume:
		started, err = unhurried(ctx, func(ctx context.Context) (*Started, error) { return t.m.client.Resume(ctx, t.Session) })
	default:
		return nil
	}
	switch {
	case errors.Is(err, cairn.ErrAlreadyRunning) || errors.Is(err, cairn.ErrNotResumable) || errors.Is(err, cairn.ErrStale):
		return nil
	case err != nil:
		t.fresh = passing(err)
		return err
	}
	t.from = started.RunID
	return nil
}

// resume continues a session that no process drives although it could run.
func (t *talk) resume(ctx context.Context) error {
	_, err := unhurried(ctx, func(ctx context.Context) (*Started, error) { return t.m.client.Resume(ctx, t.Session) })
	if errors.Is(err, cairn.ErrAlreadyRunning) || errors.Is(err, cairn.ErrNotResumable) || errors.Is(err, cairn.ErrStale) {
		return errAgain // another process was faster
	}
	return err
}

// failure returns why the last run there failed.
func (t *talk) failure(ctx context.Context) error {
	page, err := t.m.client.Runs(ctx, t.Session, true, 1, "")
	if err != nil {
		return err
	}
	why := &cairn.Error{Code: cairn.ErrInternal, Message: "it failed"}
	if len(page.Items) > 0 && page.Items[0].Error != nil {
		why = page.Items[0].Error
	}
	code := why.Code
	if why.Retryable() { // the other server has already retried
		code = cairn.ErrModelRequest
	}
	return &cairn.Error{Code: code, Message: "it failed: " + why.Message, Cause: errThere}
}

// follow streams what the session says until the end of a run. It also returns nil when it must be checked whether
// the run is still driven.
func (t *talk) follow(ctx context.Context, runID string) error {
	looked := false
	over, err := t.m.client.stream(ctx, t.Session, EventsOptions{After: t.After}, func(ev *cairn.Event) bool {
		if ev == nil { // the stream begins, or was silent
			if !t.say(cairn.Chunk{Type: cairn.ChunkText}) {
				return false
			}
			again := looked
			looked = true
			return !again
		}
		t.After = ev.Cursor()
		if !t.take(ev) {
			return false
		}
		return !ev.Ends(runID) || ev.SessionID != t.Session
	})
	switch {
	case t.yield == nil:
		return errLeft
	case errors.Is(err, cairn.ErrTrimmed):
		return t.skip(ctx, runID)
	case err != nil:
		return err
	case over && t.Ended != runID:
		return errAgain
	}
	return nil
}

// skip replaces events that the log there no longer holds: it reads from the transcript what they said.
func (t *talk) skip(ctx context.Context, runID string) error {
	snap, err := t.m.client.Snapshot(ctx, t.Session)
	if err != nil {
		return err
	}
	if snap.Session.Status == cairn.SessionActive {
		t.After = snap.Cursor
		return nil
	}
	t.After, t.Ended = snap.Cursor, runID
	for i := range slices.Backward(snap.Messages) {
		if m := &snap.Messages[i]; m.Role == cairn.RoleAssistant {
			t.cited = nil
			if !t.restart(func(s said) bool { return !isInner(&s.Chunk) }) || !t.text(m.Text()) {
				return errLeft
			}
			for _, p := range m.Parts {
				if p.File != nil && !t.add(cairn.Chunk{Type: cairn.ChunkFile, File: p.File}) {
					return errLeft
				}
			}
			t.kept, t.step, t.files = append(t.kept, t.step...), nil, nil
			break
		}
	}
	return nil
}

// take streams what an event says, and reports whether the reply is still being read.
func (t *talk) take(ev *cairn.Event) bool {
	if ev.Type == cairn.EventUsage && ev.Usage != nil {
		t.usage = t.usage.Add(*ev.Usage)
	}
	if ev.SessionID != t.Session {
		return t.from != "" || t.inner(ev)
	}
	if t.from != "" {
		if ev.RunID != t.from {
			return true
		}
		t.from = ""
	}
	if ev.Type == cairn.EventStepStart || ev.Type == cairn.EventStepCommitted {
		more := t.close()
		t.kept, t.step = append(t.kept, t.step...), nil
		t.commit(ev)
		return more
	}
	t.at = ev
	switch ev.Type {
	case cairn.EventToolStart, cairn.EventToolEnd, cairn.EventSubagentStart, cairn.EventSubagentEnd, cairn.EventCustom:
		return t.inner(ev)
	case cairn.EventStepDiscarded:
		return t.discard(ev)
	case cairn.EventTextDelta:
		return ev.Text == "" || t.text(ev.Text)
	case cairn.EventThinking:
		t.open = cairn.PartReasoning
		return t.add(cairn.Chunk{Type: cairn.ChunkReasoning, Text: ev.Text})
	case cairn.EventThinkingEnd:
		return t.close()
	case cairn.EventSources:
		t.cited = append(t.cited, ev)
	case cairn.EventFiles:
		for n, ref := range ev.Files {
			t.files = append(t.files, drawn{ev.Index, ev.MessageID, n, ref})
		}
	case cairn.EventOutput:
		t.result = ev.Data
	case cairn.EventRunEnd:
		t.Ended, t.final = ev.RunID, ev
	}
	return true
}

// text appends to the current text, or begins another paragraph.
func (t *talk) text(text string) bool {
	if t.open != cairn.PartText && t.spoke {
		text = "\n\n" + text
	}
	t.open, t.spoke = cairn.PartText, true
	return t.add(cairn.Chunk{Type: cairn.ChunkText, Text: text})
}

// close ends the current part; the end of a text carries its citations.
func (t *talk) close() bool {
	if t.open == "" {
		return true
	}
	end := cairn.Chunk{Type: cairn.ChunkPartEnd}
	if t.open == cairn.PartText {
		for _, ev := range t.cited {
			end.Sources = append(end.Sources, ev.Sources...)
		}
		t.cited = nil
	}
	t.open = ""
	return t.add(end)
}

// add streams a chunk of the current step.
func (t *talk) add(c cairn.Chunk) bool { return t.put(c, t.at) }

// put streams a chunk that came with an event.
func (t *talk) put(c cairn.Chunk, of *cairn.Event) bool {
	if n := len(t.step); n > 0 && t.step[n-1].Type == c.Type && c.Text != "" {
		t.step[n-1].text = append(t.step[n-1].text, c.Text...)
	} else {
		t.step = append(t.step, said{c, []byte(c.Text), of})
	}
	return t.say(c)
}

// say streams a chunk.
func (t *talk) say(c cairn.Chunk) bool {
	if t.yield != nil && !t.yield(c, nil) {
		t.yield = nil
	}
	return t.yield != nil
}

// fetch adds the files of the replies there to this reply. Files that are gone are omitted.
func (t *talk) fetch(ctx context.Context) error {
	for ; len(t.files) > 0; t.files = t.files[1:] {
		d := &t.files[0]
		file := &cairn.File{Name: d.ref.Name, MediaType: d.ref.MediaType, URL: d.ref.URL}
		if file.URL == "" {
			there, err := t.m.client.File(ctx, t.Session, d.index, d.messageID, d.n)
			if errors.Is(err, cairn.ErrNotFound) {
				continue
			} else if err != nil {
				return err
			}
			file.Data = there.Data
		}
		if !t.close() || !t.add(cairn.Chunk{Type: cairn.ChunkFile, File: file}) {
			return errLeft
		}
	}
	return nil
}

// ask turns the open calls there into calls of the session here.
func (t *talk) ask(list []cairn.PendingCall) error {
	for i := range list {
		c := &list[i]
		raw, err := json.Marshal(asked{Call: c.ID, Kind: c.Kind, ApprovalID: c.ApprovalID})
		if err != nil {
			return err
		}
		input := c.Input
		if len(input) == 0 {
			input = json.RawMessage("{}")
		}
		more := t.say(cairn.Chunk{Type: cairn.ChunkToolStart, CallID: c.ID, Tool: c.Tool, Provider: raw, Model: t.m.Info().ID(),
			Awaits: &cairn.Awaits{Kind: c.Kind, Prompt: c.Prompt, Payload: c.Payload, Schema: c.Schema, NoEdits: c.NoEdits, WaitAtMost: c.WaitAtMost}}) &&
			t.say(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: c.ID, Text: string(input)})
		if !more {
			return errLeft
		}
	}
	t.result = nil
	return nil
}

// finish ends the reply with the output, if there is one, and with what the next call has to know.
func (t *talk) finish() error {
	if t.final != nil && t.final.Status == cairn.RunCompleted && t.result != nil {
		if t.output {
			t.say(cairn.Chunk{Type: cairn.ChunkToolStart, CallID: "finish", Tool: cairn.FinishTool})
			t.say(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: "finish", Text: string(t.result)})
		} else {
			t.text(string(t.result))
		}
	}
	raw, err := json.Marshal(t.place)
	if err != nil {
		return err
	}
	u := t.usage // the engine counts this call itself, so ModelCalls is one less
	t.say(cairn.Chunk{Type: cairn.ChunkUsage, Usage: cairn.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, ReasoningTokens: u.ReasoningTokens,
		CachedTokens: u.CachedTokens, CacheWriteTokens: u.CacheWriteTokens, CacheWriteHourTokens: u.CacheWriteHourTokens,
		WebSearches: u.WebSearches, FileSearches: u.FileSearches,
		ModelCalls: max(u.ModelCalls-1, 0), DiscardedCalls: u.DiscardedCalls}})
	t.say(cairn.Chunk{Type: cairn.ChunkProvider, Provider: raw, Model: t.m.Info().ID()})
	if !t.say(cairn.Chunk{Type: cairn.ChunkFinish, FinishReason: cairn.FinishReasonEnd}) {
		return errLeft
	}
	return nil
}
