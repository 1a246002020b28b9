package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// The floor writes the bytes of Cairn's step into Cairn's tables or keys with the single statement or script that
// an engineer would write by hand for exactly this step: one update that is its own guard, takes encoded texts, and
// returns only whether it took effect. Cairn creates the session.

//go:embed floor.sql
var floorSQL string

// sqlFloor is the floor on PostgreSQL. joins has statements that are ready at once share a transaction.
type sqlFloor struct {
	*cairnSystem
	pool  *pgxpool.Pool
	joins bool

	mu      sync.Mutex
	waiting []*floorStep
	sending int // number of goroutines that send
}

// floorStep is a step that waits to be sent with others.
type floorStep struct {
	args    []any
	version int64
	done    chan error
}

type sqlFloorSession struct {
	*cairnSession
	floor        *sqlFloor
	key, version int64
	checkpoints  int
	at           cairn.StatePosition
}

func (f *sqlFloor) open(ctx context.Context, id string, n int) (session, error) {
	begun, err := f.begin(ctx, id, n)
	if err != nil {
		return nil, err
	}
	s := &sqlFloorSession{cairnSession: begun, floor: f, version: begun.row.Version, at: begun.row.State}
	return s, f.pool.QueryRow(ctx, "SELECT key FROM cairn.sessions WHERE id = $1", id).Scan(&s.key)
}

func (s *sqlFloorSession) step(ctx context.Context) error {
	n := s.next
	list, keyframe := s.state.change(n, s.at)
	text, messages := stepTexts(s.system.conversation, n, list, keyframe, short)
	s.at = driver.Advance(s.at, keyframe != nil, len(text))
	s.checkpoints++
	name := fmt.Sprintf("step-%06d", n)
	checkpoint := "checkpoint-" + name
	usage := fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d,"model_calls":%d,"tool_calls":%[3]d}`, 900*s.checkpoints, 80*s.checkpoints, s.checkpoints)
	head := fmt.Sprintf(`{"message_count":%d,"turn":1,"step":%d,"checkpoint_id":%q,"log_sequence":%d,`+
		`"state":{"position":%d,"keyframe_bytes":%d,"change_bytes":%d},"usage":%s,"run_usage":%[8]s,"lease_owner":"worker","checkpoints":%[9]d}`,
		2*n+4, n+1, checkpoint, 10*n, s.at.Position, s.at.KeyframeBytes, s.at.ChangeBytes, usage, s.checkpoints)
	now := time.Now()
	version, err := s.floor.write(ctx, s.key, s.version, now, now.Add(lease), head, 2*n+4, messages[:], s.at.Position, keyframe != nil, text,
		s.checkpoints, n+1, 10*n, checkpoint, name, keyOf(checkpoint), keyOf(name))
	if err == nil {
		s.next++
		s.version = version
	}
	return err
}

// write runs the statement of a step and returns the session's new version.
func (f *sqlFloor) write(ctx context.Context, args ...any) (version int64, err error) {
	if !f.joins {
		err = f.pool.QueryRow(ctx, floorSQL, args...).Scan(&version)
		return version, err
	}
	step := &floorStep{args: args, done: make(chan error, 1)}
	f.mu.Lock()
	f.waiting = append(f.waiting, step)
	if f.sending < floorSenders {
		f.sending++
		go f.send(ctx)
	}
	f.mu.Unlock()
	err = <-step.done
	return step.version, err
}

// floorSenders is how many transactions with joined statements are under way at once.
const floorSenders = 2

// send sends what waits, each time all of it as one transaction, until nothing waits.
func (f *sqlFloor) send(ctx context.Context) {
	for {
		f.mu.Lock()
		list := f.waiting
		if f.waiting = nil; len(list) == 0 {
			f.sending--
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		batch := &pgx.Batch{}
		for _, step := range list {
			batch.Queue(floorSQL, step.args...)
		}
		results := f.pool.SendBatch(ctx, batch)
		var errs []error
		for _, step := range list {
			errs = append(errs, results.QueryRow().Scan(&step.version))
		}
		err := errors.Join(append(errs, results.Close())...) // one that fails undoes all
		for _, step := range list {
			step.done <- err
		}
	}
}

//go:embed floor.lua
var floorLua string

var floorScript = redis.NewScript(floorLua)

// redisFloor is the floor on Redis.
type redisFloor struct {
	*cairnSystem
	client *redis.Client
}

type redisFloorSession struct {
	*cairnSession
	client      *redis.Client
	keys        []string
	head        string
	since       string // creation time of the session, which follows the version in its text
	checkpoints int
	parent      string // previous checkpoint
	at          cairn.StatePosition
	frame       int64 // position of the last keyframe
}

func (f *redisFloor) open(ctx context.Context, id string, n int) (session, error) {
	begun, err := f.begin(ctx, id, n)
	if err != nil {
		return nil, err
	}
	s := &redisFloorSession{cairnSession: begun, client: f.client, at: begun.row.State}
	for _, letter := range "smfcng" { // session, messages, state, checkpoints, their order, staged
		s.keys = append(s.keys, "cairn:{0}:"+string(letter)+":"+id)
	}
	row, err := f.client.HGetAll(ctx, s.keys[0]).Result()
	if err != nil {
		return nil, err
	}
	s.head = row["head"]
	_, s.since, _ = strings.Cut(row["version"], " ")
	return s, nil
}

func (s *redisFloorSession) step(ctx context.Context) error {
	n := s.next
	list, keyframe := s.state.change(n, s.at)
	text, messages := stepTexts(s.system.conversation, n, list, keyframe, func(m cairn.Message) any { return m })
	s.at = driver.Advance(s.at, keyframe != nil, len(text))
	if keyframe != nil {
		s.frame = s.at.Position
	}
	name, stamp := fmt.Sprintf("step-%06d", n), strconv.FormatInt(time.Now().UnixMicro(), 10)
	checkpoint := "checkpoint-" + name
	s.checkpoints++
	record := fmt.Sprintf(`%s[%d,1,%d,%d,%d,%d,%d,%q,"run",%q,%d,%d]`, stamp,
		s.checkpoints, 2*n+4, s.at.Position, s.frame, s.at.KeyframeBytes, s.at.ChangeBytes, s.parent, name, n+1, 10*n)
	s.parent = checkpoint
	version := func(n int) string { return strconv.Itoa(n) + " " + s.since }
	done, err := floorScript.Run(ctx, s.client, s.keys, version(s.checkpoints), version(s.checkpoints+1), s.head, stamp,
		stamp+messages[0], stamp+messages[1], text, "s"+name, "c"+checkpoint, record, checkpoint).Bool()
	switch {
	case err != nil:
		return err
	case !done:
		return fmt.Errorf("floor: %s: the guard does not hold", s.row.ID)
	}
	s.next++
	return nil
}

// read folds the chain of the state itself, since the row's head does not change.
func (s *redisFloorSession) read(ctx context.Context) (out transcript, err error) {
	pipe := s.client.Pipeline()
	messages, chain := pipe.LRange(ctx, s.keys[1], 0, -1), pipe.LRange(ctx, s.keys[2], 0, -1)
	if _, err := pipe.Exec(ctx); err != nil {
		return out, err
	}
	for _, text := range messages.Val() {
		var m cairn.Message
		if err := json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &m); err != nil { // the time precedes it
			return out, err
		}
		found, err := fromCairn(m)
		if err != nil {
			return out, err
		}
		out.Messages = append(out.Messages, found)
	}
	var keyframe json.RawMessage
	var changes [][]cairn.Op
	for _, text := range chain.Val() {
		if strings.HasPrefix(text, "{") {
			keyframe, changes = json.RawMessage(text), nil
			continue
		}
		var list []cairn.Op
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return out, err
		}
		changes = append(changes, list)
	}
	raw, err := driver.FoldState(keyframe, changes)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(raw, &out.State)
}

// keyOf returns the key by which PostgreSQL looks up a checkpoint or a step.
func keyOf(id string) int64 {
	sum := sha256.Sum256([]byte(id))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// short returns a message in PostgreSQL's form: without the run, which the row names, and with a single part in
// fields of the message.
func short(m cairn.Message) any {
	if m.RunID = ""; len(m.Parts) > 1 {
		return m
	}
	return struct {
		ID      string            `json:"id"`
		Role    cairn.Role        `json:"role"`
		Text    string            `json:"text,omitempty"`
		ToolUse *cairn.ToolUse    `json:"tool_use,omitempty"`
		Result  *cairn.ToolResult `json:"tool_result,omitempty"`
	}{m.ID, m.Role, m.Parts[0].Text, m.Parts[0].ToolUse, m.Parts[0].Result}
}

// stepTexts returns the texts that the store keeps of a step: the change of the state, and the messages.
func stepTexts(c *conversation, step int, list []cairn.Op, keyframe []byte, form func(cairn.Message) any) (
	change string, messages [2]string) {
	change = string(keyframe)
	if keyframe == nil {
		change = string(encode(list))
	}
	for i, m := range c.cairn(step) {
		messages[i] = string(encode(form(m)))
	}
	return change, messages
}
