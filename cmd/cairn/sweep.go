package main

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

// removalCmds holds the commands that end sessions for good.
type removalCmds struct {
	Sweep sweepCmd `cmd:"" help:"Remove sessions that have expired, and for good those that were removed long enough ago. Trim event logs."`
	Erase eraseCmd `cmd:"" help:"Remove a session for good, now."`
}

// eventFlags say how much of an event log is kept.
type eventFlags struct {
	EventAge time.Duration `placeholder:"DURATION" help:"Trim the events of runs that ended longer ago; at least 1h. Default: keep them."`
	Events   int           `placeholder:"N" help:"Trim a log to its newest N events, and the rest of the run they begin in; those of the last hour stay. Default: keep all."`
}

func (f eventFlags) retention() engine.EventRetention {
	return engine.EventRetention{Age: f.EventAge, Events: f.Events}
}

type sweepCmd struct {
	storeFlags
	eventFlags
	JSON      bool          `name:"json" help:"Print JSON."`
	Retention time.Duration `default:"720h" help:"Keep what was deleted or has expired for so long; 0s keeps nothing. Default: 720h."`
}

// Run sweeps once.
func (cmd *sweepCmd) Run(a *app) error {
	if cmd.Retention < 0 {
		return misuse("--retention: %s is negative", cmd.Retention)
	}
	own := *a
	own.engine.Retention = max(cmd.Retention, 1) // 0 would mean the default
	own.engine.EventRetention = cmd.retention()
	return cmd.inspect(&own, func(ctx context.Context, eng *engine.Engine) error {
		r, err := eng.Sweep(ctx)
		if printed := cmd.print(a, r); printed != nil {
			return printed
		}
		if err == nil && r.Failed > 0 {
			err = cairn.Errorf(cairn.CodeUnavailable, "%s could not be removed, purged or trimmed", count(r.Failed, "session"))
		}
		return err
	})
}

func (cmd *sweepCmd) print(a *app, r engine.SweepReport) error {
	if cmd.JSON {
		return printJSON(a.stdout, r)
	}
	err := list(a, false, items(r), []string{"DETECTED", "EXPIRED", "PURGED", "SNAPSHOTS DELETED", "EVENTS TRIMMED", "FAILED"},
		func(r *engine.SweepReport) []string {
			return []string{fmt.Sprint(r.Detected), fmt.Sprint(r.Expired), fmt.Sprint(r.Purged), fmt.Sprint(r.SnapshotsDeleted),
				fmt.Sprint(r.EventsTrimmed), fmt.Sprint(r.Failed)}
		})
	if err != nil || len(r.Errors) == 0 {
		return err
	}
	fmt.Fprintln(a.stdout)
	return list(a, false, items(r.Errors...), []string{"SESSION", "ERROR"}, func(e *engine.SweepError) []string {
		return []string{e.SessionID, string(e.Error.Code) + ": " + oneLine(e.Error.Message, maxWidth)}
	})
}

// items yields what there is already.
func items[T any](all ...T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range all {
			if !yield(item, nil) {
				return
			}
		}
	}
}

type eraseCmd struct {
	storeFlags
	one
	JSON bool `name:"json" help:"Print the session that was erased, as JSON."`
	Yes  bool `short:"y" help:"Do not ask."`
}

// Run erases.
func (cmd *eraseCmd) Run(a *app) error {
	return cmd.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		s, err := eng.Session(ctx, cmd.Session)
		if err != nil {
			return err
		}
		if !cmd.Yes {
			if err := a.confirmErasure(ctx, s); err != nil {
				return err
			}
		}
		if err := eng.Erase(ctx, cmd.Session); err != nil {
			return err
		}
		if cmd.JSON {
			return printJSON(a.stdout, s)
		}
		_, err = fmt.Fprintf(a.stdout, "Erased session %s.\n", s.ID)
		return err
	})
}

// confirmErasure asks whoever is at the terminal.
func (a *app) confirmErasure(ctx context.Context, s *cairn.Session) error {
	if !isTerminal(a.stdin) {
		return misuse("erase: nobody can be asked here; --yes erases without asking")
	}
	fmt.Fprintf(a.stderr, "Erase session %s with its %s? Nothing of it is kept. [y/N] ", s.ID, count(s.MessageCount, "message"))
	select {
	case answer := <-readLines(a.stdin).next:
		if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
			return cairn.Errorf(cairn.CodeNotExecuted, "session %q was not erased", s.ID)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
