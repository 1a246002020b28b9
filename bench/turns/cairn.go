package main

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/pgstore"
	"github.com/jackc/pgx/v5/pgxpool"
)

// cairnEngine is Cairn's engine as its guide sets it up, on its store and event log.
type cairnEngine struct {
	eng  *engine.Engine
	st   *pgstore.Store
	pool *pgxpool.Pool
	made sync.Map // sessions that were created
}

func newCairn(ctx context.Context, url string, connections int) (system, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	st, err := pgstore.New(ctx, pool, nil)
	if err != nil {
		return nil, err
	}
	tool := cairn.Func(toolName, toolText, func(context.Context, *cairn.Call, arguments) (outcome, error) { return outcome{result}, nil })
	model := scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		if r.Messages[len(r.Messages)-1].Role == cairn.RoleTool {
			return scripted.Text(answer)
		}
		return scripted.Reply(scripted.Text(reply), scripted.Call(toolName, arguments{"4711", note}))
	})
	eng, err := engine.New(st, []*cairn.Agent{{Name: "support", Model: model, Tools: []cairn.Tool{tool}}}, nil)
	return &cairnEngine{eng: eng, st: st, pool: pool}, err
}

func (c *cairnEngine) turn(ctx context.Context, session string) error {
	var opts []engine.RunOption
	if _, there := c.made.LoadOrStore(session, true); !there {
		opts = append(opts, engine.OnlyNew())
	}
	run, err := c.eng.Execute(ctx, session, "support", cairn.Text(question), opts...)
	if err == nil {
		_, err = run.Wait(ctx)
	}
	return err
}

func (c *cairnEngine) read(ctx context.Context, session string) (texts []string, err error) {
	list, err := c.eng.Messages(ctx, session, 0, 100)
	for i := range list {
		text := list[i].Text()
		for _, part := range list[i].Parts {
			if part.Type == cairn.PartToolResult {
				var out outcome
				if err := json.Unmarshal(part.Result.Output, &out); err != nil {
					return nil, err
				}
				text = out.Result
			}
		}
		texts = append(texts, text)
	}
	return texts, err
}

func (c *cairnEngine) close() error {
	if err := c.eng.Close(context.Background()); err != nil {
		return err
	}
	defer c.pool.Close()
	return c.st.Close()
}
