// Command bench measures the cost of a session's step with Cairn and with other systems that keep sessions, on the
// same servers, which it starts and removes. It writes a table and a plot into the docs; see docs/results/benchmarks.md.
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
	"syscall"
	"time"

	"github.com/cairn-agents/cairn/bench/internal/npm"
	"github.com/cairn-agents/cairn/internal/testenv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := testenv.Run(func() error { return run(ctx, os.Args[1:], os.Stdout) }); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run runs the command.
func run(ctx context.Context, args []string, progress io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	docs := flags.String("docs", "docs/results", "the directory whose "+benchmarksFile+" and "+plotFile+" are written; empty writes none")
	lengths := flags.String("lengths", "10,100,1000,10000", "lengths of history in messages, even numbers")
	writers := flags.String("writers", "1,16", "numbers of writers")
	rounds := flags.Int("rounds", 5, "rounds, of which the median counts")
	slice := flags.Duration("slice", 400*time.Millisecond, "how long a system runs until it is the next one's turn")
	budget := flags.Duration("budget", 20*time.Second, "how long a system may take for a length and a number of writers")
	cache := flags.String("cache", "", "where LangGraph's packages are installed; empty means cairn-bench in the user's cache")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p := plan{steps: 100, rounds: *rounds, slice: *slice, budget: *budget}
	var err1, err2 error
	p.lengths, err1 = numbers("lengths", *lengths, 2)
	p.writers, err2 = numbers("writers", *writers, 1)
	switch err := errors.Join(err1, err2); {
	case err != nil:
		return err
	case p.rounds < 1:
		return fmt.Errorf("-rounds: %d is less than 1", p.rounds)
	case p.slice <= 0 || p.budget <= 0:
		return errors.New("-slice and -budget: must be more than 0")
	}
	if *cache == "" {
		dir, err := npm.Cache()
		if err != nil {
			return err
		}
		*cache = dir
	}
	began := time.Now()
	packages, err := npm.Install(ctx, langgraphFiles, "langgraph", *cache, progress)
	if err != nil {
		return err
	}
	postgres, err1 := testenv.StartPostgres()
	redis, err2 := testenv.StartRedis()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	a, err := newArena(ctx, postgres, redis, slices.Max(p.writers), packages)
	if err != nil {
		return err
	}
	defer a.close()
	where, err := a.setting(ctx)
	if err != nil {
		return err
	}
	r, err := measure(ctx, a.contenders, a.conversation, p, progress)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "after %s\n\n%s", time.Since(began).Round(time.Second), tables(a.contenders, r))
	if *docs == "" {
		return nil
	}
	return writeReport(*docs, a.contenders, r, where)
}

// numbers parses a list of numbers that are multiples of step.
func numbers(name, text string, step int) (out []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < step || n%step != 0 {
			return nil, fmt.Errorf("-%s: %q is not a positive multiple of %d", name, part, step)
		}
		out = append(out, n)
	}
	return out, nil
}
