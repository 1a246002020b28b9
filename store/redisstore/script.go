package redisstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// script is one of the programs that run in the server.
type script struct {
	name   string
	doing  string // for errors
	reads  bool
	text   string
	hash   any // a string
	script *redis.Script
}

// reader and writer return the script in the file of a name, which begins with the file common.lua.
func reader(name, doing string) *script {
	return load(name, doing, true, source("common")+source(name))
}
func writer(name, doing string) *script {
	return load(name, doing, false, source("common")+source(name))
}

// about and aboutReading do so for a script whose first argument is the id of a session. They are for ask.
func about(name, doing string) *script {
	return load(name, doing, false, source("common")+source("id")+source(name))
}
func aboutReading(name, doing string) *script {
	return load(name, doing, true, source("common")+source("id")+source(name))
}

// alone returns the script in the file of a name, which is whole.
func alone(name, doing string) *script { return load(name, doing, false, source(name)) }

func load(name, doing string, reads bool, text string) *script {
	sc := redis.NewScript(text)
	return &script{name: name, doing: doing, reads: reads, text: text, hash: sc.Hash(), script: sc}
}

// keyOfCommand is where a command has the name of its key.
const keyOfCommand = 3

// command returns the command that runs a script with one key.
func (sc *script) command(key string, args ...any) []any {
	return append(append(make([]any, 0, 4+len(args)), "evalsha", sc.hash, 1, key), args...)
}

// source returns a file, which is there: it was embedded.
func source(name string) string {
	raw, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// run runs a script on a bucket.
func (s *Store) run(ctx context.Context, sc *script, bucket int, args ...any) (reply, error) {
	return s.reply(ctx, sc, sc.command(s.buckets[bucket], args...))
}

// reply runs the command of a script that answers a list, or one text.
func (s *Store) reply(ctx context.Context, sc *script, command []any) (reply, error) {
	answer, err := s.answer(ctx, sc, command)
	if err != nil {
		return nil, err
	}
	list, _ := answer.([]any)
	if text, ok := answer.(string); ok {
		list = reply{text}
	}
	if len(list) == 0 {
		return nil, cairn.Errorf(cairn.CodeInternal, "%s: the server answers nothing", sc.doing)
	}
	return list, nil
}

// answer runs the command of a script and returns what it answers, which for most is a list.
func (s *Store) answer(ctx context.Context, sc *script, command []any) (any, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	if s.intercept != nil && !sc.reads {
		if err := s.intercept(sc.name); err != nil {
			return nil, fault(sc.doing, err)
		}
	}
	answer, err := s.eval(ctx, sc, command).Result()
	return answer, s.fault(ctx, sc.doing, err)
}

// eval has the server run the command of a script, as soon as it is ready to, and sends a script that it does not have.
// A script that only reads is not run as EVALSHA_RO, which a client may send to a replica.
func (s *Store) eval(ctx context.Context, sc *script, command []any) *redis.Cmd {
	var deadline time.Time
	for {
		cmd := redis.NewCmd(ctx, command...)
		cmd.SetFirstKeyPos(3)
		err := s.client.Process(ctx, cmd)
		switch {
		case err == nil:
			return cmd
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			command[0], command[1] = "eval", sc.text
			continue
		case !notYet(err):
			return cmd
		case deadline.IsZero():
			deadline = time.Now().Add(startWait)
		}
		if time.Now().After(deadline) || !s.pause(ctx) {
			return cmd
		}
	}
}

// runAll runs a reading script on every bucket.
func (s *Store) runAll(ctx context.Context, sc *script, args ...any) ([]reply, error) {
	if len(s.buckets) == 1 {
		r, err := s.run(ctx, sc, 0, args...)
		return []reply{r}, err
	}
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	cmds := make([]*redis.Cmd, len(s.buckets))
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range s.buckets {
			cmds[i] = sc.script.EvalSha(ctx, p, []string{name}, args...)
		}
		return nil
	})
	if err != nil && !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return nil, s.fault(ctx, sc.doing, err)
	}
	replies := make([]reply, len(cmds))
	for i, cmd := range cmds {
		list, err := cmd.Slice()
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			list, err = sc.script.Eval(ctx, s.client, []string{s.buckets[i]}, args...).Slice()
		}
		if err != nil {
			return nil, s.fault(ctx, sc.doing, err)
		}
		replies[i] = list
	}
	return replies, nil
}

const (
	// startWait is how long a call waits for a server that has just started, or for another one to take its place.
	startWait = 10 * time.Second
	// startPause is how long it waits each time.
	startPause = 50 * time.Millisecond
)

// notYet reports whether a server refuses every command for the time being.
func notYet(err error) bool {
	return redis.HasErrorPrefix(err, "LOADING") || redis.HasErrorPrefix(err, "MASTERDOWN") || redis.HasErrorPrefix(err, "CLUSTERDOWN")
}

// pause waits a little. It reports whether the call is to continue.
func (s *Store) pause(ctx context.Context) bool {
	timer := time.NewTimer(startPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-s.closed:
	}
	return false
}

// check reports why a call is not to happen.
func (s *Store) check(ctx context.Context) error {
	select {
	case <-s.closed:
		return errClosed
	default:
		return ctx.Err()
	}
}

// reply is what a script answers: a word that says what came of it, and what belongs to that.
type reply []any

func (r reply) word() string { return r.text(0) }

// text returns an element that is a text; a missing one is empty.
func (r reply) text(i int) string {
	if i >= len(r) {
		return ""
	}
	return plain(r[i])
}

// plain returns a text or a number as a text; nil is empty.
func plain(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return ""
	}
	return fmt.Sprint(v)
}

// list returns an element that is a list; a missing one is empty.
func (r reply) list(i int) []any {
	if i >= len(r) {
		return nil
	}
	list, _ := r[i].([]any)
	return list
}

// unknown is the error for an answer that its script does not give.
func unknown(sc *script, r reply) error { return unknownText(sc, r.word()) }

func unknownText(sc *script, text string) error {
	return cairn.Errorf(cairn.CodeInternal, "%s: the server answers %q", sc.doing, text)
}

// errClosed is the error of every call after Close.
var errClosed = cairn.Errorf(cairn.CodeClosed, "the store is closed")

// fault is the function of that name, for a call that may have failed because the store was closed or ctx is done.
func (s *Store) fault(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-s.closed:
		return errClosed
	default:
	}
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	return fault(doing, err)
}

// fault gives an error of the client a code and says what was being done. Errors that have a code already, and those of
// contexts, pass.
func fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	var known *cairn.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	text := err.Error()
	code, what := cairn.CodeUnavailable, ""
	var answer redis.Error
	switch {
	case errors.Is(err, redis.ErrClosed):
		return errClosed
	case redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "NOAUTH"), strings.Contains(text, "invalid password"),
		strings.Contains(text, "without any password configured"):
		what = "the server refuses the user or password"
	case redis.HasErrorPrefix(err, "NOPERM"):
		what = "the user may not do that"
	case redis.HasErrorPrefix(err, "READONLY"):
		what = "the server is a read-only replica"
	case strings.Contains(text, "max number of clients"):
		what = "the server has no connection left"
	case errors.Is(err, redis.ErrPoolTimeout):
		what = "all connections of this process are in use"
	case redis.HasErrorPrefix(err, "OOM"):
		what = "the server is out of memory"
	case redis.HasErrorPrefix(err, "MISCONF"):
		what = "the server cannot write to its disk"
	case redis.HasErrorPrefix(err, "LOADING"):
		what = "the server is still reading its data"
	case redis.HasErrorPrefix(err, "CLUSTERDOWN"), redis.HasErrorPrefix(err, "MASTERDOWN"), redis.HasErrorPrefix(err, "TRYAGAIN"):
		what = "the cluster is not complete"
	case redis.HasErrorPrefix(err, "WRONGTYPE"), strings.Contains(text, "WRONGTYPE"):
		code, what = cairn.CodeSchema, "a key under the prefix is not this store's"
	case errors.As(err, &answer):
		code, what = cairn.CodeInternal, "the server refuses a command"
	default:
		what = "the server cannot be reached"
	}
	return cairn.Errorf(code, "%s: %s: %w", doing, what, err)
}
