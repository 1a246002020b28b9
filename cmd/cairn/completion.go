package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: ${enum}."`
}

// Help returns the details for --help.
func (completionCmd) Help() string {
	return `It completes commands and flags, and files after them. For the current shell:

  source <(cairn completion bash)
  cairn completion fish | source`
}

// Run prints a script that completes commands and flags.
func (cmd *completionCmd) Run(a *cli.App, k *kong.Context) error {
	script := shellScript
	if cmd.Shell == "fish" {
		script = fishScript
	}
	text := script(completions(k.Model.Node, nil))
	if cmd.Shell == "zsh" {
		text = "autoload -U +X bashcompinit && bashcompinit\n" + text
	}
	_, err := fmt.Fprint(a.Stdout, text)
	return err
}

// completion is what may follow a command.
type completion struct {
	path     []string // the command's words; empty for the program
	commands []string
	flags    []string
}

// completions returns the completions of a command and those of the commands below it.
func completions(n *kong.Node, path []string) []completion {
	c := completion{path: path}
	for up := n; up != nil; up = up.Parent {
		for _, f := range up.Flags {
			if !f.Hidden {
				c.flags = append(c.flags, f.Name)
			}
		}
	}
	list := []completion{{}}
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		c.commands = append(c.commands, child.Name)
		list = append(list, completions(child, append(path[:len(path):len(path)], child.Name))...)
	}
	list[0] = c
	return list
}

// shellScript returns a script for bash and zsh.
func shellScript(list []completion) string {
	var known, words strings.Builder
	for _, c := range list {
		path := strings.Join(c.path, " ")
		if path != "" {
			fmt.Fprintf(&known, "      %q) path=%q;;\n", path, path)
		}
		all := c.commands
		for _, f := range c.flags {
			all = append(all[:len(all):len(all)], "--"+f)
		}
		fmt.Fprintf(&words, "    %q) words=%q;;\n", path, strings.Join(all, " "))
	}
	return fmt.Sprintf(`_cairn() {
  local word path= words=
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "${path:+$path }$word" in
%s    esac
  done
  case "$path" in
%s  esac
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _cairn cairn
`, &known, &words)
}

// fishScript returns a script for fish.
func fishScript(list []completion) string {
	var text strings.Builder
	for _, c := range list {
		seen := "true"
		for _, word := range c.path {
			seen += "; and __fish_seen_subcommand_from " + word
		}
		here := seen
		if len(c.commands) > 0 {
			here += "; and not __fish_seen_subcommand_from " + strings.Join(c.commands, " ")
			fmt.Fprintf(&text, "complete -c cairn -n '%s' -a '%s'\n", here, strings.Join(c.commands, " "))
		}
		for _, f := range c.flags {
			fmt.Fprintf(&text, "complete -c cairn -n '%s' -l %s\n", here, f)
		}
	}
	return text.String()
}
