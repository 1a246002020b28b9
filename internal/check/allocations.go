package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// allocationsFile has the accepted allocations of some benchmarks: a line each with its name, allocations and bytes.
const allocationsFile = "internal/check/allocations.txt"

// The benchmarks run on one processor: with more, the order in which goroutines run changes the figures. A figure may
// differ by the larger of a share and a number, as sizes of maps and pools do between versions of Go and machines.
const (
	allocationsShare, allocationsSlack = 0.02, 2
	bytesShare, bytesSlack             = 0.05, 256
)

// allocations are what a benchmark allocates in one iteration.
type allocations struct {
	name          string
	count, memory int64
}

// checkAllocations compares what benchmarks of the engine allocate with the accepted figures.
func checkAllocations(t *tree) ([]string, error) {
	text, err := t.read(allocationsFile)
	if err != nil {
		return nil, err
	}
	accepted, err := parseAllocations(text)
	if err != nil {
		return nil, err
	}
	measured, err := measure(t, accepted)
	if err != nil {
		return nil, err
	}
	return compareAllocations(accepted, measured), nil
}

// acceptAllocations measures the benchmarks of the file and writes their figures to it.
func acceptAllocations(t *tree) error {
	text, err := t.read(allocationsFile)
	if err != nil {
		return err
	}
	accepted, err := parseAllocations(text)
	if err != nil {
		return err
	}
	measured, err := measure(t, accepted)
	if err != nil {
		return err
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			out.WriteString(line)
		}
	}
	for _, a := range measured {
		fmt.Fprintf(&out, "%s %d %d\n", a.name, a.count, a.memory)
	}
	return os.WriteFile(t.path(allocationsFile), []byte(out.String()), 0o644)
}

// parseAllocations reads lines of a name, allocations and bytes. Lines that begin with # are comments.
func parseAllocations(text string) ([]allocations, error) {
	var list []allocations
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		var a allocations
		if n, err := fmt.Sscan(line, &a.name, &a.count, &a.memory); n != 3 {
			return nil, fmt.Errorf("%s: %q is not a benchmark with its allocations and bytes: %w", allocationsFile, strings.TrimSpace(line), err)
		}
		list = append(list, a)
	}
	if len(list) == 0 {
		return nil, errors.New(allocationsFile + " lists no benchmarks")
	}
	return list, nil
}

// measure runs benchmarks, and returns their figures in the same order.
func measure(t *tree, list []allocations) ([]allocations, error) {
	names := make([]string, len(list))
	for i, a := range list {
		names[i] = a.name
	}
	out, err := t.command("engine", "go", "test", "-run=^$", "-bench=^("+strings.Join(names, "|")+")$", "-benchmem", "-cpu=1", "-benchtime=200x", ".")
	if err != nil {
		return nil, err
	}
	found := readBenchmarks(out)
	measured := make([]allocations, len(list))
	for i, name := range names {
		a, ok := found[name]
		if !ok {
			return nil, fmt.Errorf("package engine has no benchmark %s, which %s lists", name, allocationsFile)
		}
		measured[i] = a
	}
	return measured, nil
}

// readBenchmarks reads the output of go test -bench -benchmem.
func readBenchmarks(out string) map[string]allocations {
	found := map[string]allocations{}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		a := allocations{name: fields[0]}
		for i := 1; i < len(fields); i++ {
			value, _ := strconv.ParseInt(fields[i-1], 10, 64)
			switch fields[i] {
			case "B/op":
				a.memory = value
			case "allocs/op":
				a.count = value
			}
		}
		found[a.name] = a
	}
	return found
}

// compareAllocations returns the figures that differ by more than they may. Fewer allocations are a problem too, or
// later changes could take back what was gained.
func compareAllocations(accepted, measured []allocations) []string {
	var problems []string
	for i, was := range accepted {
		is := measured[i]
		for _, f := range []struct {
			what    string
			was, is int64
			may     float64
		}{
			{"allocations", was.count, is.count, max(allocationsShare*float64(was.count), allocationsSlack)},
			{"bytes", was.memory, is.memory, max(bytesShare*float64(was.memory), bytesSlack)},
		} {
			if diff := f.is - f.was; float64(diff) > f.may || float64(-diff) > f.may {
				problems = append(problems, fmt.Sprintf("engine: %s: %d %s, %d are accepted (%+.1f %%); if that is right: go run ./internal/check -allocations",
					was.name, f.is, f.what, f.was, 100*float64(diff)/float64(max(f.was, 1))))
			}
		}
	}
	return problems
}
