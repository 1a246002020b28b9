package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"text/template"
	"time"
)

// The part of docs/results/benchmarks.md between these lines is generated.
const (
	beginMark = "<!-- peers: written by make bench-peers -->"
	endMark   = "<!-- peers: end -->"
)

const (
	benchmarksFile = "benchmarks.md"
	plotFile       = "bench-peers.svg"
)

//go:embed report.tmpl
var reportText string

var reportTemplate = template.Must(template.New("report").Parse(reportText))

// setting is the machine and the versions of a measurement.
type setting struct {
	Date, Machine                     string
	Args                              string // arguments of the command
	Versions                          map[string]string
	Rounds                            int
	Slice                             time.Duration
	Text, Input, Result, Field, State int
	Plot                              string
	Tables                            string
}

// writeReport writes the report and the plot into the directory of the docs.
func writeReport(dir string, list []contender, r *results, s setting) error {
	name := filepath.Join(dir, benchmarksFile)
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	s.Rounds, s.Slice, s.Plot, s.Tables = r.plan.rounds, r.plan.slice, plotFile, tables(list, r)
	s.Text, s.Input, s.Result, s.Field, s.State = textBytes, inputBytes, resultBytes, fieldBytes, fields*fieldBytes
	var text bytes.Buffer
	if err := reportTemplate.Execute(&text, s); err != nil {
		return err
	}
	page, err := between(string(old), text.String())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, plotFile), []byte(drawing(list, r)), 0o644),
		os.WriteFile(name, []byte(page), 0o644))
}

// between replaces the text between the marks of a page.
func between(page, text string) (string, error) {
	head, rest, found := strings.Cut(page, beginMark+"\n")
	_, tail, ended := strings.Cut(rest, endMark+"\n")
	if !found || !ended {
		return "", fmt.Errorf("lines %q and %q not found", beginMark, endMark)
	}
	return head + beginMark + "\n" + text + endMark + "\n" + tail, nil
}

// drawing plots the cost of a step with the first number of writers.
func drawing(list []contender, r *results) string {
	writers := r.plan.writers[0]
	var lines []series
	peers := 0
	for i, x := range list {
		s := series{name: fmt.Sprintf("%s (%s)", x.name, x.on), dashed: x.on == onRedis}
		switch x.name {
		case joinedName: // with one writer it is the floor
			continue
		case floorName:
			s.colour = "floor"
		case cairnName:
			s.colour = "cairn"
		default:
			s.colour = fmt.Sprintf("peer%d", peers)
			peers++
		}
		for _, n := range r.plan.lengths {
			s.points = append(s.points, point{float64(n), 1000 / r.cells[cellKey{i, n, writers}].rate()})
		}
		lines = append(lines, s)
	}
	yName := fmt.Sprintf("milliseconds per step, writers: %d", writers)
	return plot("What a step costs, by the length of the session's history", "messages in the session before", yName, lines)
}

// setting collects the machine and the versions.
func (a *arena) setting(ctx context.Context) (setting, error) {
	s := setting{Date: time.Now().UTC().Format("2006-01-02"), Machine: machine(), Args: strings.Join(os.Args[1:], " "), Versions: map[string]string{"Go": runtime.Version()}}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			s.Versions[m.Path] = m.Version
		}
	}
	var version string
	if err := a.databases[0].pool.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return s, err
	}
	s.Versions["PostgreSQL"], _, _ = strings.Cut(version, " ")
	text, err := a.keyspaces[0].client.Info(ctx, "server").Result()
	if err != nil {
		return s, err
	}
	_, rest, _ := strings.Cut(text, "redis_version:")
	s.Versions["Redis"], _, _ = strings.Cut(rest, "\r")
	node, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err != nil {
		return s, fmt.Errorf("node --version: %w", err)
	}
	s.Versions["Node.js"] = strings.TrimSpace(string(node))
	manifest, err := langgraphFiles.ReadFile("langgraph/package.json")
	if err != nil {
		return s, err
	}
	var packages struct{ Dependencies map[string]string }
	if err := json.Unmarshal(manifest, &packages); err != nil {
		return s, err
	}
	for name, version := range packages.Dependencies {
		s.Versions[name] = version
	}
	return s, nil
}

// machine describes the processors and the machine's load.
func machine() string {
	out := fmt.Sprintf("%d processors", runtime.NumCPU())
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(text), "model name\t: "); ok {
			name, _, _ := strings.Cut(rest, "\n")
			out += " (" + name + ")"
		}
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ := strings.Cut(string(text), " ")
		out += ", load " + load + " before the run"
	}
	return out
}
