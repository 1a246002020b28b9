package main

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cairn-agents/cairn"
)

// list prints items as a table of one row each, or as one JSON array.
func list[T any](a *app, asJSON bool, items iter.Seq2[T, error], header []string, row func(*T) []string) error {
	return listRows(a, asJSON, items, header, func(item *T) [][]string { return [][]string{row(item)} })
}

// block is how many rows of a table are held back to align them.
const block = 1000

// listRows prints items as a table of any number of rows each, or as one JSON array.
func listRows[T any](a *app, asJSON bool, items iter.Seq2[T, error], header []string, rows func(*T) [][]string) error {
	if asJSON {
		return printArray(a.stdout, items)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	printRow(w, header)
	held := 0
	for item, err := range items {
		if err != nil {
			return err
		}
		for _, cells := range rows(&item) {
			printRow(w, cells)
			held++
		}
		if held >= block {
			if err := w.Flush(); err != nil {
				return err
			}
			held = 0
		}
	}
	return w.Flush()
}

// printRow prints cells; an error shows when the table is flushed.
func printRow(w io.Writer, cells []string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = orElse(visible(cell), "-")
	}
	fmt.Fprintln(w, strings.Join(row, "\t"))
}

// printFields prints names and values, leaving out empty ones.
func printFields(out io.Writer, fields [][2]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f[1] != "" {
			fmt.Fprintln(w, f[0]+"\t"+visible(f[1]))
		}
	}
	return w.Flush()
}

// printJSON prints one document.
func printJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}

// printArray prints items as one JSON array without holding them all.
func printArray[T any](w io.Writer, items iter.Seq2[T, error]) error {
	before, after := "[", "[]\n"
	for item, err := range items {
		if err != nil {
			return err
		}
		raw, err := json.MarshalIndent(item, "  ", "  ")
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n  %s", before, raw); err != nil {
			return err
		}
		before, after = ",", "\n]\n"
	}
	_, err := io.WriteString(w, after)
	return err
}

// visible replaces control characters, which could upset a terminal or a table; what a model or a user wrote may hold any.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}

// now is the time that ages refer to.
func (a *app) now() time.Time {
	if a.engine.Now != nil {
		return a.engine.Now()
	}
	return time.Now()
}

// statusOf names what a session is doing.
func statusOf(s *cairn.Session) string {
	switch {
	case s.Crashed(s.AsOf):
		return "crashed"
	case s.Ready():
		return "ready"
	}
	return string(s.Status)
}

// tokensOf returns tokens in and out.
func tokensOf(u cairn.Usage) string { return fmt.Sprintf("%d/%d", u.InputTokens, u.OutputTokens) }

// count returns a number of things, as in "1 message" and "2 messages".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func pairs(m map[string]string) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, k+"="+m[k])
	}
	return strings.Join(list, ", ")
}

// stamp returns a point in time in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// age returns how long ago a time was, in its largest unit.
func age(now, t time.Time) string {
	d := max(now.Sub(t), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
	return fmt.Sprintf("%dd ago", int(d.Hours()/24))
}
