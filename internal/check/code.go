package main

import (
	"errors"
	"os"
	"slices"
	"strings"
)

// checkFormat reports Go files that gofmt would change.
func checkFormat(t *tree) ([]string, error) {
	list, err := t.command(".", "gofmt", "-l", ".")
	if err != nil {
		return []string{err.Error()}, nil
	}
	var problems []string
	for _, name := range strings.Fields(list) {
		problems = append(problems, name+": not formatted: gofmt -w "+name)
	}
	return problems, nil
}

func checkTidy(t *tree) ([]string, error) {
	return each(t, t.inWorkspace(t.modules), "go", "mod", "tidy", "-diff")
}

// tidy does what checkTidy asks for. Modules follow those that they require, so one pass is enough.
func tidy(t *tree) error {
	problems, err := each(t, t.inWorkspace(t.modules), "go", "mod", "tidy")
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "\n"))
	}
	return err
}

// checkBuild builds each module outside the workspace, with the versions of its own go.mod.
func checkBuild(t *tree) ([]string, error) {
	return each(t, t.inWorkspace(t.codeModules()), "go", "build", "-buildvcs=false", "-o", os.DevNull, "./...")
}

func checkVet(t *tree) ([]string, error) { return together(t, "go", "vet") }

// checkStatic runs the staticcheck that the tools module pins, with the rules of staticcheck.conf.
func checkStatic(t *tree) ([]string, error) {
	binary, err := t.command("tools", "go", "tool", "-n", "staticcheck") // builds it and prints its path
	if err != nil {
		return nil, err
	}
	return together(t, strings.TrimSpace(binary))
}

// together runs a command once for all packages of the workspace, which takes a fraction of what a run for each module
// takes, and once for each module outside the workspace.
func together(t *tree, name string, args ...string) ([]string, error) {
	var outside []module
	for _, m := range t.inWorkspace(t.codeModules()) {
		if slices.Contains(comparing, m.dir) {
			outside = append(outside, m)
		}
	}
	problems, err := each(t, outside, name, append(slices.Clone(args), "./...")...)
	if err != nil {
		return nil, err
	}
	if _, err := t.start("", ".", name, append(args, t.patterns()...)...); err != nil {
		problems = append(problems, err.Error())
	}
	return problems, nil
}

// each runs a command in the directory of each module. A command that fails is a problem.
func each(t *tree, modules []module, name string, args ...string) ([]string, error) {
	var problems []string
	for _, m := range modules {
		if _, err := t.command(m.dir, name, args...); err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems, nil
}
