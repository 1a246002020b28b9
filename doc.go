// Package cairn holds the nouns of durable agent sessions: agents and their tools, sessions, runs, messages, state,
// events, models, hooks and errors. It does no I/O.
//
// An [Agent] is a plain value. Give it to an engine (package engine) together with a store (packages
// store/memstore, store/sqlitestore) to run it:
//
//	eng, err := engine.New(st, []*cairn.Agent{support}, nil)
//	run, err := eng.Execute(ctx, "session-1", "support", cairn.Text("Order 42 arrived broken."))
//	res, err := run.Wait(ctx)
//
// A [Session] is the conversation and the primary key of everything. A [Run] is one execution inside it. A step is one
// model call with the tool calls it asked for; each step is one atomic commit, so that a process may die at any
// instant and another one continues from the last step.
package cairn
