package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// load is the load that clients put on a stack.
type load struct {
	chats, readers, killed int
	rounds                 int
	patience               time.Duration
}

// stack is a server to measure, in its own process.
type stack struct {
	name       string
	command    []string
	dir, env   string
	redis, url string
	port       string
	process    *exec.Cmd
}

// start starts the server and waits until it listens. A server that is started again gets its previous port.
func (s *stack) start(ctx context.Context) error {
	if s.port == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		_, s.port, _ = net.SplitHostPort(l.Addr().String())
		l.Close()
	}
	s.url = "http://127.0.0.1:" + s.port
	s.process = exec.CommandContext(ctx, s.command[0], s.command[1:]...)
	s.process.Dir, s.process.Stderr = s.dir, os.Stderr
	s.process.Env = append(os.Environ(), "PORT="+s.port, "REDIS_URL="+s.redis, s.env)
	out, err := s.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.process.Start(); err != nil {
		return err
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	return err
}

func (s *stack) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// spent returns the server's resident memory and its processor time so far.
func (s *stack) spent() (memory int64, cpu time.Duration, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	number := func(i int) int64 { n, _ := strconv.ParseInt(fields[i], 10, 64); return n }
	const ticks = 100 // per second, on Linux
	return number(21) * int64(os.Getpagesize()), time.Duration(number(11)+number(12)) * time.Second / ticks, nil
}

// client opens a connection for each stream.
var client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}}

// ask requests an answer.
func (s *stack) ask(ctx context.Context, chat, text string) (*http.Response, error) {
	body := fmt.Sprintf(`{"id":%q,"messages":[{"id":"m","role":"user","parts":[{"type":"text","text":%q}]}]}`, chat, text)
	req, err := http.NewRequestWithContext(ctx, "POST", s.url+"/chat", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return client.Do(req)
}

// join follows the answer under way from its beginning.
func (s *stack) join(ctx context.Context, chat string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+"/chat/"+chat+"/stream", nil)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// read reads a stream to its end, and reports whether it contained the whole answer. It calls first at the first
// word.
func read(res *http.Response, deltas *atomic.Int64, first func()) (whole bool) {
	defer res.Body.Close()
	said, finished := 0, false
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.Contains(line, `"text-delta"`):
			if said == 0 && first != nil {
				first()
			}
			said += strings.Count(line, "word")
			deltas.Add(1)
		case strings.Contains(line, `"finish"`):
			finished = true
		case line == "data: [DONE]":
			return finished && said == words
		}
	}
	return false
}

// firstWords returns the median time from a question to the first word of the answer, with a model that takes no
// time.
func (s *stack) firstWords(ctx context.Context, name string, n int) (time.Duration, error) {
	var times []time.Duration
	for i := range n {
		began := time.Now()
		res, err := s.ask(ctx, fmt.Sprint(name, i), "hi")
		if err != nil {
			return 0, err
		}
		read(res, new(atomic.Int64), func() { times = append(times, time.Since(began)) })
	}
	if len(times) == 0 {
		return 0, fmt.Errorf("no answer has a word")
	}
	return median(times), nil
}

func median(list []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(list))[len(list)/2]
}

// measure measures the stacks. They take turns in each round, and first in turns, so that what else the machine does
// meets all of them.
func (l *load) measure(ctx context.Context, stacks []*stack) (list []*result, err error) {
	for _, s := range stacks {
		if err := s.start(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		defer s.kill()
		if _, err := s.firstWords(ctx, "warm", 200); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		list = append(list, &result{name: s.name})
	}
	for round := range l.rounds {
		for n := range stacks {
			i := (n + round) % len(stacks)
			if err := l.round(ctx, stacks[i], list[i], round); err != nil {
				return nil, fmt.Errorf("%s: %w", stacks[i].name, err)
			}
		}
	}
	for i, s := range stacks {
		if err := l.survive(ctx, s, list[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return list, nil
}

// round measures a stack once.
func (l *load) round(ctx context.Context, s *stack, r *result, round int) error {
	idle, err := s.firstWords(ctx, fmt.Sprint("idle", round, "-"), 100)
	if err != nil {
		return err
	}
	r.firstIdle = append(r.firstIdle, idle)
	r.readers += l.chats * l.readers
	return l.follow(ctx, s, r, round)
}

// follow makes all readers read concurrently.
func (l *load) follow(ctx context.Context, s *stack, r *result, round int) error {
	before, spent, err := s.spent()
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	var deltas, complete atomic.Int64
	reading := func(res *http.Response, first func()) {
		all.Go(func() {
			if read(res, &deltas, first) {
				complete.Add(1)
			}
		})
	}
	for i := range l.chats {
		chat := fmt.Sprint("load", round, "-", i)
		res, err := s.ask(ctx, chat, "slowly")
		if err != nil {
			return err
		}
		answers := make(chan struct{})
		reading(res, func() { close(answers) })
		<-answers // before that, there may be nothing to join
		for range l.readers - 1 {
			if res, err = s.join(ctx, chat); err != nil {
				return err
			}
			reading(res, nil)
		}
	}
	busy, err := s.firstWords(ctx, fmt.Sprint("busy", round, "-"), 50)
	if err != nil {
		return err
	}
	during, _, err := s.spent()
	if err != nil {
		return err
	}
	all.Wait()
	_, total, err := s.spent()
	if round == 0 { // later, the process has the memory already
		r.memory = (during - before) / int64(l.chats*l.readers)
	}
	r.firstBusy = append(r.firstBusy, busy)
	r.perDelta = append(r.perDelta, (total-spent)/time.Duration(max(deltas.Load(), 1)))
	r.complete += int(complete.Load())
	return err
}

// survive kills the server while it answers and starts it again. Each client then requests the rest until it has
// all of it.
func (l *load) survive(ctx context.Context, s *stack, r *result) error {
	var answers []io.Closer
	for i := range l.killed {
		res, err := s.ask(ctx, fmt.Sprint("killed", i), "slowly")
		if err != nil {
			return err
		}
		answers = append(answers, res.Body)
	}
	time.Sleep(time.Second)
	s.kill()
	killed := time.Now()
	for _, a := range answers {
		a.Close()
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	limit, cancel := context.WithDeadline(ctx, killed.Add(l.patience))
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range l.killed {
		all.Go(func() {
			for limit.Err() == nil {
				res, err := s.join(limit, fmt.Sprint("killed", i))
				if err == nil && read(res, new(atomic.Int64), nil) {
					mu.Lock()
					defer mu.Unlock()
					r.whole++
					r.continued = max(r.continued, time.Since(killed))
					return
				}
				time.Sleep(250 * time.Millisecond)
			}
		})
	}
	all.Wait()
	return ctx.Err()
}
