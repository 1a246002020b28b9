package main

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

//go:embed langgraph
var langgraphFiles embed.FS

// langGraph keeps sessions, as threads, with LangGraph's PostgreSQL saver. A step is a node of a graph and
// therefore one checkpoint. With the durability "sync" it is on the server before the next step begins, with "async",
// LangGraph's default, it is written while the next one runs. A single process drives all writers, as is usual in
// JavaScript.
type langGraph struct {
	database  *postgresDatabase
	async     bool
	command   *exec.Cmd
	in        io.WriteCloser
	templates templates

	mu  sync.Mutex // serializes requests
	out *bufio.Reader
}

type langGraphSession struct {
	system *langGraph
	id     string
}

func newLangGraph(ctx context.Context, c *conversation, dir, durability string, db *postgresDatabase, writers int) (*langGraph, error) {
	command := exec.CommandContext(ctx, "node", "--max-old-space-size=4096", "driver.mjs")
	command.Dir, command.Stderr = dir, os.Stderr
	in, err1 := command.StdinPipe()
	out, err2 := command.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	l := &langGraph{database: db, async: durability == "async", command: command, in: in, out: bufio.NewReader(out)}
	err := l.ask(map[string]any{"op": "setup", "host": db.dir, "database": db.name, "writers": writers, "tool": toolName,
		"durability": durability, "conversation": c}, &struct{}{})
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// ask sends a request and decodes the response.
func (l *langGraph) ask(request, answer any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.in.Write(append(encode(request), '\n')); err != nil {
		return fmt.Errorf("langgraph: %w", err)
	}
	line, err := l.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("langgraph: %w", err)
	}
	var failure struct{ Error string }
	if err := json.Unmarshal(line, &failure); err != nil {
		return fmt.Errorf("langgraph: %w", err)
	}
	if failure.Error != "" {
		return fmt.Errorf("langgraph: %s", failure.Error)
	}
	return json.Unmarshal(line, answer)
}

// open copies a template, since a graph takes seconds to write a long history.
func (l *langGraph) open(ctx context.Context, id string, n int) (session, error) {
	template, err := l.templates.of(n, func(id string) error {
		return l.ask(map[string]any{"op": "open", "id": id, "messages": n}, &struct{}{})
	})
	for _, table := range []string{"checkpoints", "checkpoint_blobs", "checkpoint_writes"} {
		if err == nil {
			_, err = l.database.pool.Exec(ctx, `
				INSERT INTO `+table+`
				SELECT r.*
				FROM `+table+` t, LATERAL jsonb_populate_record(t, jsonb_build_object('thread_id', $2::text)) r
				WHERE t.thread_id = $1`, template, id)
		}
	}
	return &langGraphSession{l, id}, err
}

func (l *langGraph) drive(_ context.Context, lanes []lane, d time.Duration) ([]pace, error) {
	type job struct {
		ID    string `json:"id"`
		Steps int    `json:"steps"`
	}
	jobs := make([][]job, len(lanes))
	for i, lane := range lanes {
		for _, e := range lane {
			jobs[i] = append(jobs[i], job{e.session.(*langGraphSession).id, e.left})
		}
	}
	var answer struct {
		Lanes []struct {
			Steps   []int
			Seconds float64
		}
	}
	if err := l.ask(map[string]any{"op": "drive", "lanes": jobs, "milliseconds": d.Milliseconds()}, &answer); err != nil {
		return nil, err
	}
	out := make([]pace, len(lanes))
	for i, done := range answer.Lanes {
		for j, steps := range done.Steps {
			lanes[i][j].left -= steps
			out[i].steps += steps
		}
		out[i].spent = time.Duration(done.Seconds * float64(time.Second))
	}
	return out, nil
}

// mostUnwritten bounds the messages of all writers' histories with the durability "async". The process does not wait for
// its checkpoints, each of which has the whole history, so with more it runs out of memory.
const mostUnwritten = 20_000

func (l *langGraph) takes(n, writers int) bool { return !l.async || n*writers <= mostUnwritten }

func (l *langGraph) stored(ctx context.Context) (int64, error) { return l.database.stored(ctx) }

func (l *langGraph) close() error {
	l.in.Close()
	return l.command.Wait()
}

func (s *langGraphSession) step(ctx context.Context) error {
	_, err := s.system.drive(ctx, []lane{{{session: s, left: 1}}}, time.Minute)
	return err
}

func (s *langGraphSession) read(context.Context) (out transcript, err error) {
	return out, s.system.ask(map[string]any{"op": "read", "id": s.id}, &out)
}
