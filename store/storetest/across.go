package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// elsewhereVariable names the environment variable that makes a test binary follow a log.
const elsewhereVariable = "CAIRN_STORETEST_ELSEWHERE"

// pace is the mean time between two events of an answer as an engine streams it.
const pace = 20 * time.Millisecond

// Elsewhere makes a test binary the other process of BenchFollowAcrossProcesses if the benchmark has started it; it
// does not return then. Call it in an init function. open opens the event log at the place that the benchmark was
// given.
func Elsewhere(open func(place string) (driver.Log, error)) {
	place := os.Getenv(elsewhereVariable)
	if place == "" {
		return
	}
	if err := followElsewhere(open, place); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// followElsewhere prints the nanoseconds that each event took to arrive, until its standard input ends.
func followElsewhere(open func(place string) (driver.Log, error), place string) error {
	log, err := open(place)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	for ev, err := range log.Follow(ctx, "log", 0) {
		if err != nil {
			return err
		}
		fmt.Println(time.Since(ev.Time).Nanoseconds())
	}
	return nil
}

// BenchFollowAcrossProcesses measures the time from the append of an event to its arrival at a follower in another
// process, at the pace of an answer. The other process is this test binary, which must call Elsewhere; place says how
// to open the log.
func BenchFollowAcrossProcesses(b *testing.B, log driver.Log, place string) {
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), elsewhereVariable+"="+place)
	var problem strings.Builder
	cmd.Stderr = &problem
	input, err1 := cmd.StdinPipe()
	output, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	arrival := func() (took time.Duration) {
		ev := cairn.Event{Type: cairn.EventTextDelta, Text: "a few words", Time: time.Now()}
		if _, err := log.Append(b.Context(), "log", driver.AnySequence, ev); err != nil {
			b.Fatal(err)
		}
		if !lines.Scan() {
			b.Fatalf("the other process has ended: %v: %s", cmd.Wait(), problem.String())
		}
		if _, err := fmt.Sscan(lines.Text(), (*int64)(&took)); err != nil {
			b.Fatal(err)
		}
		return took
	}
	arrival() // the other process has begun
	var times []time.Duration
	for b.Loop() {
		time.Sleep(pace/2 + rand.N(pace)) // Real time, to append at any moment of a poller's interval
		times = append(times, arrival())
	}
	input.Close()
	if err := cmd.Wait(); err != nil {
		b.Fatalf("the other process: %v: %s", err, problem.String())
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "median-ms")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
}
