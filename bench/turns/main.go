// Command turns compares whole turns of shipped engines on PostgreSQL: Cairn's engine with its event log, and ADK's
// runner with its database sessions. Both have an agent with the same tool and a model that answers at once. The command
// prints a table; see docs/results/benchmarks.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := testenv.Run(func() error { return run(ctx, os.Args[1:], os.Stdout) }); err != nil {
		fmt.Fprintln(os.Stderr, "turns:", err)
		os.Exit(1)
	}
}

// system is an engine with its sessions. It is safe for concurrent use.
type system interface {
	// turn makes a session take one more turn, from the user's message to the model's answer. A turn of an unknown session
	// creates it.
	turn(ctx context.Context, session string) error
	// read returns the texts of a session as another process would find them, in order.
	read(ctx context.Context, session string) ([]string, error)
	close() error
}

// What a turn consists of: the user's message, a reply with a call of a tool, its result, and an answer.
var (
	question = prose(200)
	reply    = prose(240)
	note     = prose(120) // argument of the call
	result   = prose(1024)
	answer   = prose(400)
)

const (
	toolName = "look_up_order"
	toolText = "Looks up an order."
)

// arguments are those of the tool.
type arguments struct {
	Order string `json:"order"`
	Note  string `json:"note"`
}

// outcome is the result of the tool.
type outcome struct {
	Result string `json:"result"`
}

// prose returns words as a text of the given size in bytes.
func prose(size int) string {
	return strings.Repeat("the order arrived and the customer asks for a refund of item 4711, ", size/60+1)[:size]
}

// plan defines the measurements.
type plan struct {
	after, writers []int
	rounds, turns  int
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("turns", flag.ContinueOnError)
	after := flags.String("after", "0,20,100", "numbers of turns that a session has before the measured ones; 0 measures first turns")
	writers := flags.String("writers", "1,16", "numbers of sessions that take turns at once")
	var p plan
	flags.IntVar(&p.rounds, "rounds", 5, "rounds, of which the median counts")
	flags.IntVar(&p.turns, "turns", 4, "turns of each session in a round")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err1, err2 error
	p.after, err1 = numbers("after", *after, 0)
	p.writers, err2 = numbers("writers", *writers, 1)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if p.rounds < 1 || p.turns < 1 {
		return errors.New("-rounds and -turns: must be more than 0")
	}
	server, err := testenv.StartPostgres()
	if err != nil {
		return err
	}
	connections := 2 * slices.Max(p.writers)
	var list []system
	defer func() {
		for _, s := range list {
			err = errors.Join(err, s.close())
		}
	}()
	for _, open := range []func(context.Context, string, int) (system, error){newCairn, newADK} {
		url, err := newDatabase(ctx, server, fmt.Sprint("turns", len(list)))
		if err != nil {
			return err
		}
		s, err := open(ctx, url, connections)
		if err != nil {
			return err
		}
		list = append(list, s)
		if err := verify(ctx, s); err != nil {
			return err
		}
	}
	return p.measure(ctx, list[0], list[1], out)
}

// numbers parses a list of numbers that are at least least.
func numbers(name, text string, least int) (list []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < least {
			return nil, fmt.Errorf("-%s: %q is not a number of at least %d", name, part, least)
		}
		list = append(list, n)
	}
	return list, nil
}

// newDatabase creates a database on a server and returns its URL.
func newDatabase(ctx context.Context, s *testenv.PostgresServer, name string) (string, error) {
	admin, err := pgxpool.New(ctx, s.URL())
	if err != nil {
		return "", err
	}
	defer admin.Close()
	if _, err := admin.Exec(ctx, `CREATE DATABASE `+name); err != nil {
		return "", err
	}
	config := admin.Config().ConnConfig
	return fmt.Sprintf("postgres:///%s?host=%s&user=%s", name, s.Dir, config.User), nil
}

// verify checks that a system keeps the texts of its turns.
func verify(ctx context.Context, s system) error {
	var want []string
	for range 3 {
		if err := s.turn(ctx, "verified"); err != nil {
			return err
		}
		want = append(want, question, reply, result, answer)
	}
	got, err := s.read(ctx, "verified")
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("%T has kept %.300q, want %.300q", s, got, want)
	}
	return err
}

// measure prints the time of a turn with each system, which take turns, and the ratio.
func (p *plan) measure(ctx context.Context, cairn, adk system, out io.Writer) error {
	fmt.Fprintln(out, "| Turns before | Sessions at once | Cairn | ADK | ADK to Cairn (lowest to highest of the rounds) |\n| --- | --- | --- | --- | --- |")
	for _, writers := range p.writers {
		for _, after := range p.after {
			name := fmt.Sprintf("a%d-w%d", after, writers)
			systems := []system{cairn, adk}
			for _, s := range systems {
				if err := each(writers, func(w int) error {
					return repeat(after, func(int) error { return s.turn(ctx, fmt.Sprintf("%s-%d", name, w)) })
				}); err != nil {
					return err
				}
			}
			var times [2][]float64 // milliseconds per turn of each round
			var ratios []float64
			for round := range p.rounds {
				for n := range systems {
					i := (n + round) % 2
					began := time.Now()
					if err := each(writers, func(w int) error {
						return repeat(p.turns, func(turn int) error {
							session := fmt.Sprintf("%s-%d", name, w)
							if after == 0 {
								session = fmt.Sprintf("%s-%d-%d", session, round, turn)
							}
							return systems[i].turn(ctx, session)
						})
					}); err != nil {
						return err
					}
					times[i] = append(times[i], time.Since(began).Seconds()*1000/float64(writers*p.turns))
				}
				ratios = append(ratios, times[1][round]/times[0][round])
			}
			fmt.Fprintf(out, "| %d | %d | %.2f ms, %.0f/s | %.2f ms, %.0f/s | %.1f (%.1f to %.1f) |\n", after, writers,
				median(times[0]), 1000/median(times[0]), median(times[1]), 1000/median(times[1]), median(ratios), slices.Min(ratios), slices.Max(ratios))
		}
	}
	return nil
}

// each calls do concurrently for the numbers below n.
func each(n int, do func(int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = do(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// repeat calls do for the numbers below n, until it fails.
func repeat(n int, do func(int) error) error {
	for i := range n {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
