package main

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

// sessionsCmd holds what its commands have in common.
type sessionsCmd struct {
	storeFlags
	JSON bool `name:"json" help:"Print JSON: one document, but for events --follow, which prints one event per line."`

	List        listCmd        `cmd:"" help:"List sessions, newest first."`
	Show        showCmd        `cmd:"" help:"Show one session."`
	Runs        runsCmd        `cmd:"" help:"List a session's runs."`
	Messages    messagesCmd    `cmd:"" help:"Print a session's transcript."`
	Events      eventsCmd      `cmd:"" help:"Print a session's event log."`
	Checkpoints checkpointsCmd `cmd:"" help:"List a session's checkpoints."`
	State       stateCmd       `cmd:"" help:"Print a session's state, as JSON in any case."`
	Branch      branchCmd      `cmd:"" help:"Make a new session from an existing one."`
	Rewind      rewindCmd      `cmd:"" help:"Take a session back to one of its checkpoints."`
	Delete      deleteCmd      `cmd:"" help:"Delete a session with everything it owns."`
	Restore     restoreCmd     `cmd:"" help:"Bring back a session that was deleted or has expired."`
	Trim        trimCmd        `cmd:"" help:"Remove the oldest events of a session's log."`
	Stop        stopCmd        `cmd:"" help:"Stop a session's run, in whichever process it is."`
}

// one is the argument of commands about one session.
type one struct {
	Session string `arg:"" help:"The session's id."`
}

type listCmd struct {
	User   string   `help:"Only sessions of this user."`
	Agent  string   `help:"Only sessions of this agent."`
	Status []string `enum:"idle,active,paused,completed,failed,interrupted" help:"Only sessions with one of these statuses: ${enum}."`
	Tag    []string `help:"Only sessions with all of these tags."`
	Limit  int      `default:"50" help:"At most so many; 0 lists all. Default: 50."`

	SubAgents bool `help:"List the sessions of sub-agents too."`
}

// Run lists sessions.
func (cmd *listCmd) Run(a *app, all *sessionsCmd) error {
	if cmd.Limit < 0 {
		return misuse("--limit: %d is negative", cmd.Limit)
	}
	q := store.SessionQuery{UserID: cmd.User, Agent: cmd.Agent, Tags: cmd.Tag, RootsOnly: !cmd.SubAgents, Limit: min(cmd.Limit, 1000)}
	for _, s := range cmd.Status {
		q.Statuses = append(q.Statuses, cairn.SessionStatus(s))
	}
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		sessions := paged(func(cursor string) (store.Page[cairn.Session], error) {
			q.Cursor = cursor
			return eng.Sessions(ctx, q)
		})
		now := a.now()
		return list(a, all.JSON, first(sessions, cmd.Limit),
			[]string{"SESSION", "AGENT", "STATUS", "USER", "TAGS", "TURNS", "MESSAGES", "TOKENS", "UPDATED"},
			func(s *cairn.Session) []string {
				return []string{s.ID, s.Agent, statusOf(s), s.UserID, strings.Join(s.Tags, ","), fmt.Sprint(s.Turn),
					fmt.Sprint(s.MessageCount), tokensOf(s.Usage), age(now, s.UpdatedAt)}
			})
	})
}

type showCmd struct{ one }

// shown is a session with what can be done about it.
type shown struct {
	*cairn.Session
	Continue engine.Resumability `json:"continue"`
	// Waiting are the first hundred open calls, of a root with those of all sub-agents; Children are a hundred of the
	// session's sub-agents, the newest.
	Waiting  []cairn.PendingCall `json:"waiting,omitempty"`
	Children []string            `json:"children,omitempty"`
}

// Run shows a session.
func (cmd *showCmd) Run(a *app, all *sessionsCmd) error {
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Session(ctx, cmd.Session)
		if err != nil {
			return err
		}
		about, err := look(ctx, eng, s)
		if err != nil {
			return err
		}
		if all.JSON {
			return printJSON(a.stdout, about)
		}
		var last cairn.Run
		if runs, err := eng.Runs(ctx, s.ID, store.PageQuery{Newest: true, Limit: 1}); err != nil {
			return err
		} else if len(runs.Items) > 0 {
			last = runs.Items[0]
		}
		return printFields(a.stdout, sessionFields(a, about, last))
	})
}

// look returns what there is to know about a session beside its row.
func look(ctx context.Context, eng *engine.Engine, s *cairn.Session) (*shown, error) {
	about := &shown{Session: s}
	var err error
	if about.Continue, err = eng.CanResume(ctx, s.ID); err != nil {
		return nil, err
	}
	if about.Waiting, err = openCalls(ctx, eng, s.RootID, s.ID); err != nil {
		return nil, err
	}
	children, err := eng.Sessions(ctx, store.SessionQuery{ParentID: s.ID})
	for i := range children.Items {
		about.Children = append(about.Children, children.Items[i].ID)
	}
	return about, err
}

func sessionFields(a *app, s *shown, last cairn.Run) [][2]string {
	now := a.now()
	fields := [][2]string{
		{"session", s.ID}, {"agent", s.Agent}, {"status", statusOf(s.Session)},
		{"user", s.UserID}, {"tags", strings.Join(s.Tags, ", ")}, {"metadata", pairs(s.Metadata)},
		{"turns", fmt.Sprint(s.Turn)}, {"messages", fmt.Sprint(s.MessageCount)}, {"tokens", tokensOf(s.Usage)},
		{"model calls", fmt.Sprint(s.Usage.ModelCalls)}, {"tool calls", fmt.Sprint(s.Usage.ToolCalls)},
		{"checkpoint", s.CheckpointID}, {"version", fmt.Sprint(s.Version)},
		{"created", stamp(s.CreatedAt)}, {"updated", stamp(s.UpdatedAt)},
	}
	if s.ParentID != "" {
		fields = append(fields, [2]string{"parent", s.ParentID}, [2]string{"root", s.RootID})
	}
	if last.ID != "" {
		fields = append(fields, [2]string{"last run", fmt.Sprintf("%s %s", last.ID, last.Status)})
	}
	if last.Error != nil {
		fields = append(fields, [2]string{"error", string(last.Error.Code) + ": " + last.Error.Message})
	}
	if s.Running(s.AsOf) {
		fields = append(fields, [2]string{"held by", s.Lease.Owner + " until " + stamp(s.Lease.Until)})
	}
	for i := range s.Waiting {
		c := &s.Waiting[i]
		fields = append(fields, [2]string{"waits for", waitsFor(c, now)})
	}
	for _, child := range s.Children {
		fields = append(fields, [2]string{"sub-agent", child})
	}
	what := s.Continue.Reason
	switch {
	case s.Continue.Resume:
		what = "resume: " + what
	case s.Continue.Retry:
		what = "retry: " + what
	}
	return append(fields, [2]string{"to go on", what})
}

// waitsFor names a call with what is missing of it.
func waitsFor(c *cairn.PendingCall, now time.Time) string {
	text := missing(c.Kind) + " of " + c.Tool + " " + c.ID
	if until := deadline(c, now); until != "" {
		text += " until " + until
	}
	return text
}

type runsCmd struct{ one }

// Run lists runs.
func (cmd *runsCmd) Run(a *app, all *sessionsCmd) error {
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		runs := paged(func(cursor string) (store.Page[cairn.Run], error) {
			return eng.Runs(ctx, cmd.Session, store.PageQuery{Cursor: cursor})
		})
		return list(a, all.JSON, runs,
			[]string{"TURN", "RUN", "KIND", "STATUS", "REASON", "STEPS", "TOKENS", "STARTED", "TOOK", "SUSPENDED FOR", "ERROR"},
			func(r *cairn.Run) []string {
				took, failure := "", ""
				if !r.EndedAt.IsZero() {
					took = fmt.Sprintf("%.1fs", r.EndedAt.Sub(r.StartedAt).Seconds())
				}
				if r.Error != nil {
					failure = string(r.Error.Code) + ": " + oneLine(r.Error.Message, maxWidth)
				}
				return []string{fmt.Sprint(r.Turn), r.ID, string(r.Kind), string(r.Status), string(r.Reason), fmt.Sprint(r.Steps),
					tokensOf(r.Usage), stamp(r.StartedAt), took, suspendedFor(r.Suspended), failure}
			})
	})
}

// suspendedFor names the tools and counts the sub-agents that a run waited for when it was suspended.
func suspendedFor(s *cairn.Suspension) string {
	if s == nil {
		return ""
	}
	var words []string
	for _, c := range s.Calls {
		words = append(words, c.Tool)
	}
	if n := len(s.Children); n > 0 {
		words = append(words, "in "+count(n, "sub-agent"))
	}
	return oneLine(strings.Join(words, " "), maxWidth)
}

type checkpointsCmd struct{ one }

// Run lists checkpoints.
func (cmd *checkpointsCmd) Run(a *app, all *sessionsCmd) error {
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Session(ctx, cmd.Session)
		if err != nil {
			return err
		}
		checkpoints := paged(func(cursor string) (store.Page[cairn.Checkpoint], error) {
			return eng.Checkpoints(ctx, cmd.Session, store.PageQuery{Cursor: cursor})
		})
		return list(a, all.JSON, checkpoints,
			[]string{"NUMBER", "CHECKPOINT", "TURN", "STEP", "MESSAGES", "WRITTEN", "CURRENT"},
			func(c *cairn.Checkpoint) []string {
				current := ""
				if c.ID == s.CheckpointID {
					current = "*"
				}
				return []string{fmt.Sprint(c.Number), c.ID, fmt.Sprint(c.Turn), fmt.Sprint(c.Step), fmt.Sprint(c.MessageCount),
					stamp(c.CreatedAt), current}
			})
	})
}

type stateCmd struct {
	one
	Checkpoint string `placeholder:"ID" help:"As of this checkpoint."`
}

// Run prints the state.
func (cmd *stateCmd) Run(a *app, all *sessionsCmd) error {
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		state, err := eng.State(ctx, cmd.Session, cmd.Checkpoint)
		if err != nil {
			return err
		}
		return printJSON(a.stdout, state)
	})
}

// paged yields the items of a list, page by page.
func paged[T any](page func(cursor string) (store.Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			p, err := page(cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range p.Items {
				if !yield(item, nil) {
					return
				}
			}
			if cursor = p.Next; cursor == "" {
				return
			}
		}
	}
}

// first yields at most n items; 0 is no limit.
func first[T any](items iter.Seq2[T, error], n int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		given := 0
		for item, err := range items {
			if !yield(item, err) {
				return
			}
			if given++; given == n {
				return
			}
		}
	}
}
