// Command check enforces the house rules that a machine can enforce: formatting, vet, staticcheck, tidy modules,
// listed requirements, imports that only go downwards, small cycles of files, few tests that sleep, links and code in
// the docs, banned words, an example for each constructor, and what a few benchmarks allocate.
//
//	go run ./internal/check              run every check
//	go run ./internal/check floors docs  run the named ones
//	go run ./internal/check -fix         tidy the modules and copy marked code into the docs
//	go run ./internal/check -allocations accept what benchmarks allocate now, see allocations.txt
//	go run ./internal/check -packages    print the patterns that match every package of every module of the workspace
//	go run ./internal/check -outside     check, or fix, the modules outside the workspace as well
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// check is one rule. Its run function returns the violations, one line each, and an error if it could not check.
type check struct {
	name string
	run  func(*tree) ([]string, error)
}

// Format, tidy, build, vet and staticcheck run the tools of that name. The others are written here, since no linter
// does them as cheaply or at all. words and links read every text file. docs copies declarations and bodies of
// examples. floors parses imports only, in a tenth of a second, while import linters load and check all types in
// each module; cycles resolves names within each package only, and sleeps only parses. examples, workspace and
// requirements are rules of this repository.
var checks = []check{
	{"format", checkFormat},
	{"words", checkWords},
	{"phrases", checkPhrases},
	{"links", checkLinks},
	{"docs", checkCode},
	{"floors", checkFloors},
	{"cycles", checkCycles},
	{"sleeps", checkSleeps},
	{"examples", checkExamples},
	{"workspace", checkWorkspace},
	{"requirements", checkRequirements},
	{"tidy", checkTidy},
	{"build", checkBuild},
	{"vet", checkVet},
	{"staticcheck", checkStatic},
	{"allocations", checkAllocations},
}

func main() {
	fix := flag.Bool("fix", false, "tidy the modules and copy marked code into the docs")
	packages := flag.Bool("packages", false, "print the patterns that match every package of every module of the workspace")
	allocations := flag.Bool("allocations", false, "measure the benchmarks of "+allocationsFile+" and accept what they allocate")
	withOutside := flag.Bool("outside", false, "hold, or fix, the modules outside the workspace as well, and download what they require")
	flag.Parse()

	t, err := openTree(".")
	if err == nil {
		t.outside = *withOutside
	}
	switch {
	case err != nil:
	case *packages:
		fmt.Println(strings.Join(t.patterns(), "\n"))
	case *allocations:
		err = acceptAllocations(t)
	case *fix:
		err = errors.Join(tidy(t), updateCode(t))
	default:
		err = run(os.Stdout, t, checks, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

// run performs the named checks, or all if no name is given, and reports each to w. It performs all of them even if
// one fails.
func run(w io.Writer, t *tree, list []check, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(list, func(c check) bool { return c.name == name }) {
			return fmt.Errorf("unknown check %q", name)
		}
	}
	var failed []string
	for _, c := range list {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		start := time.Now()
		problems, err := c.run(t)
		if err != nil {
			problems = append(problems, err.Error())
		}
		verdict := "ok  "
		if len(problems) > 0 {
			verdict = "FAIL"
			failed = append(failed, c.name)
		}
		fmt.Fprintf(w, "%s  %-12s  %5.1fs\n", verdict, c.name, time.Since(start).Seconds())
		for _, p := range problems {
			fmt.Fprintln(w, "      "+strings.ReplaceAll(strings.TrimSpace(p), "\n", "\n      "))
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}
