package sessions

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/engine"
)

type requestCmd struct {
	one
	Reply int  `arg:"" help:"Index of the reply, as messages prints it."`
	Since *int `placeholder:"INDEX" help:"Print what has changed since the request of an earlier reply instead."`
}

// Run prints the request of a reply, or its differences from that of an earlier reply.
func (cmd *requestCmd) Run(a *cli.App, all *flags) error {
	if cmd.Since != nil && *cmd.Since >= cmd.Reply {
		return cli.Misuse("--since must be less than %d", cmd.Reply)
	}
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		now, err := eng.Request(ctx, cmd.Session, cmd.Reply)
		if err != nil {
			return err
		}
		if cmd.Since == nil {
			if all.JSON {
				return output.JSON(a.Stdout, now)
			}
			return printRequest(a.Stdout, now)
		}
		before, err := eng.Request(ctx, cmd.Session, *cmd.Since)
		if err != nil {
			return err
		}
		d := difference(before, now)
		if all.JSON {
			return output.JSON(a.Stdout, d)
		}
		return d.print(a.Stdout)
	})
}

// extent says which messages a request had.
func extent(r *cairn.SentRequest) string {
	text := fmt.Sprintf("%d to %d", r.First, r.Last)
	if r.Summary > 0 {
		text = fmt.Sprintf("the summary %d, then %s", r.Summary, text)
	}
	if r.Changed {
		text += ", as hooks may have changed them"
	}
	return text
}

func printRequest(w io.Writer, r *cairn.SentRequest) error {
	fmt.Fprintf(w, "Messages: %s\n\nInstructions (%s):\n%s\n\nTools (%s):\n", extent(r), r.InstructionsHash, output.Lined(r.Instructions), r.ToolsHash)
	for _, t := range r.Tools {
		fmt.Fprintf(w, "  %s (%s): %s\n    %s\n", t.Name, t.Hash, output.OneLine(t.Description, 0), t.Schema)
	}
	return nil
}

// requestDifference is what differs between two requests.
type requestDifference struct {
	Before requestBlocks `json:"before"`
	After  requestBlocks `json:"after"`
	// Lines are the lines of the instructions that are gone (-) and new (+), in their order.
	Lines []string `json:"lines,omitempty"`
	// Added, Removed and Changed are tools. Reordered reports whether the others have another order.
	Added     []string `json:"added,omitempty"`
	Removed   []string `json:"removed,omitempty"`
	Changed   []string `json:"changed,omitempty"`
	Reordered bool     `json:"reordered,omitempty"`

	before, after string // the messages
}

// requestBlocks are the hashes of a request's blocks.
type requestBlocks struct {
	Instructions string `json:"instructions"`
	Tools        string `json:"tools"`
}

func difference(before, after *cairn.SentRequest) *requestDifference {
	d := &requestDifference{Before: requestBlocks{before.InstructionsHash, before.ToolsHash}, After: requestBlocks{after.InstructionsHash, after.ToolsHash}, before: extent(before), after: extent(after)}
	if before.InstructionsHash != after.InstructionsHash {
		d.Lines = lineDiff(strings.Split(before.Instructions, "\n"), strings.Split(after.Instructions, "\n"))
	}
	hashes := map[string]string{}
	var kept []string
	for _, t := range before.Tools {
		hashes[t.Name] = t.Hash
	}
	for _, t := range after.Tools {
		switch hash, there := hashes[t.Name]; {
		case !there:
			d.Added = append(d.Added, t.Name)
		default:
			kept = append(kept, t.Name)
			if hash != t.Hash {
				d.Changed = append(d.Changed, t.Name)
			}
		}
	}
	at := 0
	for _, t := range before.Tools {
		if i := slices.Index(kept, t.Name); i < 0 {
			d.Removed = append(d.Removed, t.Name)
		} else {
			d.Reordered = d.Reordered || i != at
			at++
		}
	}
	return d
}

// maxDiff limits the work of a comparison of lines.
const maxDiff = 4 << 20

// lineDiff returns the lines that are only in a (-) or only in b (+), by their longest common subsequence. Of texts that
// are too long to be compared it returns all lines.
func lineDiff(a, b []string) (lines []string) {
	if len(a)*len(b) > maxDiff {
		for _, line := range a {
			lines = append(lines, "- "+line)
		}
		for _, line := range b {
			lines = append(lines, "+ "+line)
		}
		return lines
	}
	common := make([][]int, len(a)+1) // of the rests from i and j on
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			lines = append(lines, "- "+a[i])
			i++
		default:
			lines = append(lines, "+ "+b[j])
			j++
		}
	}
	return lines
}

func (d *requestDifference) print(w io.Writer) error {
	fmt.Fprintf(w, "Messages: %s; before: %s\n", d.after, d.before)
	if d.Before.Instructions == d.After.Instructions {
		fmt.Fprintln(w, "Instructions: the same")
	} else {
		fmt.Fprintln(w, "Instructions:")
		for _, line := range d.Lines {
			fmt.Fprintln(w, "  "+output.Visible(line))
		}
	}
	if d.Before.Tools == d.After.Tools {
		_, err := fmt.Fprintln(w, "Tools: the same")
		return err
	}
	fmt.Fprintln(w, "Tools:")
	for _, group := range []struct {
		mark  string
		names []string
	}{{"-", d.Removed}, {"+", d.Added}, {"~", d.Changed}} {
		for _, name := range group.names {
			fmt.Fprintf(w, "  %s %s\n", group.mark, name)
		}
	}
	if d.Reordered {
		fmt.Fprintln(w, "  in another order")
	}
	return nil
}
