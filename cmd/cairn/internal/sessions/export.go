package sessions

import (
	"context"
	"regexp"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/named"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/export"
)

type exportCmd struct {
	Sessions []string `arg:"" optional:"" name:"session" help:"The sessions' ids or their beginnings. Default: all that the flags select."`
	filters
	Format  string   `enum:"jsonl,html" default:"jsonl" help:"jsonl for a line of JSON per session, or html for a page of one session. Default: jsonl."`
	Public  bool     `help:"Only what the users of the sessions may see: no hidden messages, instructions, tools and private errors."`
	Redact  []string `sep:"none" placeholder:"REGEXP" help:"Replace what this expression matches, in all texts and numbers, by [redacted], and leave out files. May be repeated."`
	MaxFile int      `default:"1048576" placeholder:"BYTES" help:"The maximum size of a file that is included; 0 includes none. Default: 1 MiB."`
}

// Help returns the details for --help.
func (exportCmd) Help() string {
	return `Each line has a session with its messages in the shape of chat completions, the tools and instructions of its model, its
runs, scores and usage, and the sessions of its sub-agents. The page needs no other file and makes no requests. Neither can
be imported again: use cairn store copy for that.`
}

// Run writes an export.
func (cmd *exportCmd) Run(a *cli.App, all *flags) error {
	if cmd.Format == "html" && len(cmd.Sessions) != 1 {
		return cli.Misuse("--format html: name one session")
	}
	if cmd.MaxFile < 0 {
		return cli.Misuse("--max-file: %d is negative", cmd.MaxFile)
	}
	opts := &export.Options{Public: cmd.Public, MaxFile: cmd.MaxFile}
	if cmd.MaxFile == 0 {
		opts.MaxFile = -1
	}
	var err error
	if opts.Redact, err = redact(cmd.Redact); err != nil {
		return err
	}
	q, err := cmd.query(all)
	if err != nil {
		return err
	}
	return all.At.Inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		if len(cmd.Sessions) == 0 {
			return export.Sessions(ctx, eng, a.Stdout, q, opts)
		}
		write := export.Session
		if cmd.Format == "html" {
			write = export.HTML
		}
		for _, name := range cmd.Sessions {
			id, err := all.At.ID("session", name)
			if err == nil {
				id, err = named.Session(ctx, eng, id)
			}
			if err == nil {
				err = write(ctx, eng, a.Stdout, id, opts)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// redact returns a function that replaces the matches of expressions; nil for none.
func redact(expressions []string) (func(string) (string, error), error) {
	var list []*regexp.Regexp
	for _, text := range expressions {
		re, err := regexp.Compile(text)
		if err != nil {
			return nil, cli.Misuse("--redact: %v", err)
		}
		list = append(list, re)
	}
	if list == nil {
		return nil, nil
	}
	return func(text string) (string, error) {
		for _, re := range list {
			text = re.ReplaceAllLiteralString(text, "[redacted]")
		}
		return text, nil
	}, nil
}
