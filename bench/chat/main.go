// Command chat compares the chat of Cairn's server with the one that teams build on Node: streamText of the AI SDK,
// with resumable-stream. Both store their data on the same kind of Redis, answer with the same hundred words, and
// speak the UI message stream to the same clients. The command prints a table; see docs/results/benchmarks.md.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cairn-agents/cairn/bench/internal/npm"
	"github.com/cairn-agents/cairn/internal/testenv"
)

//go:embed node
var nodeFiles embed.FS

func main() {
	if os.Getenv(serverVariable) != "" {
		if err := serve(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "chat:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := testenv.Run(func() error { return run(ctx, os.Args[1:], os.Stdout) }); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("chat", flag.ContinueOnError)
	var l load
	flags.IntVar(&l.chats, "chats", 100, "chats with an answer under way at once")
	flags.IntVar(&l.readers, "readers", 10, "readers of each answer, the one who asked among them")
	flags.IntVar(&l.rounds, "rounds", 3, "rounds, of which the median counts")
	flags.IntVar(&l.killed, "killed", 50, "chats with an answer under way when the server is killed")
	flags.DurationVar(&l.patience, "patience", 90*time.Second, "how long a client whose server was killed asks for the rest")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if l.chats < 1 || l.readers < 1 || l.rounds < 1 || l.killed < 0 || l.patience < 0 {
		return errors.New("-chats, -readers and -rounds: must be more than 0; -killed and -patience: must not be negative")
	}
	cache, err := npm.Cache()
	if err != nil {
		return err
	}
	packages, err := npm.Install(ctx, nodeFiles, "node", cache, os.Stderr)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	stacks := []*stack{
		{name: "Cairn", command: []string{self}, env: serverVariable + "=1"},
		{name: "AI SDK and resumable-stream", command: []string{"node", "server.mjs"}, dir: packages},
	}
	for _, s := range stacks {
		redis, err := testenv.StartRedis()
		if err != nil {
			return err
		}
		s.redis = redis.URL()
	}
	results, err := l.measure(ctx, stacks)
	if err != nil {
		return err
	}
	return l.report(out, results)
}

// result is the measurement of a stack.
type result struct {
	name                 string
	firstIdle, firstBusy []time.Duration // medians of each round
	memory               int64           // bytes per reader
	perDelta             []time.Duration // server's processor time to send a word to a reader, in each round
	complete, readers    int
	whole                int
	continued            time.Duration // time until the last whole answer
}

func (l *load) report(out io.Writer, list []*result) error {
	row := func(what string, cell func(*result) string) {
		fmt.Fprintf(out, "| %s |", what)
		for _, r := range list {
			fmt.Fprintf(out, " %s |", cell(r))
		}
		fmt.Fprintln(out)
	}
	row(fmt.Sprintf("%d chats, %d readers of each", l.chats, l.readers), func(r *result) string { return r.name })
	row("---", func(*result) string { return "---" })
	millis := func(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }
	row("The first word, median, idle", func(r *result) string { return millis(median(r.firstIdle)) })
	row("The first word, median, while the readers follow", func(r *result) string { return millis(median(r.firstBusy)) })
	row("Resident memory of a reader", func(r *result) string { return fmt.Sprintf("%d KiB", r.memory/1024) })
	row("Processor time to bring a word to a reader, all of the server's", func(r *result) string { return fmt.Sprintf("%d µs", median(r.perDelta).Microseconds()) })
	row("Readers with the whole answer", func(r *result) string { return fmt.Sprintf("%d of %d", r.complete, r.readers) })
	row(fmt.Sprintf("Whole answers in the end, of %d under way when the server was killed and started again", l.killed), func(r *result) string {
		if r.whole == 0 {
			return "0"
		}
		return fmt.Sprintf("%d, the last after %.0f s", r.whole, r.continued.Seconds())
	})
	return nil
}
