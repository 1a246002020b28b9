// Package output formats what commands print: tables, fields, JSON, and values cut and cleaned to fit them. It
// knows no command.
package output

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"text/tabwriter"
)

// List prints items as a table with one row per item, or as [Items] does.
func List[T any](out io.Writer, asJSON bool, items iter.Seq2[T, error], header []string, row func(*T) []string) error {
	if asJSON {
		return Items(out, items, nil)
	}
	return Rows(out, items, header, func(item *T) [][]string { return [][]string{row(item)} })
}

// block is the number of rows that are buffered to align a table.
const block = 1000

// Rows prints items as a table with any number of rows per item.
func Rows[T any](out io.Writer, items iter.Seq2[T, error], header []string, rows func(*T) [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	printRow(w, header)
	held := 0
	for item, err := range items {
		if err != nil && held > 0 { // what is done is shown
			return errors.Join(err, w.Flush())
		}
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

// printRow prints cells. A write error surfaces when the table is flushed.
func printRow(w io.Writer, cells []string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = cmp.Or(Visible(cell), "-")
	}
	fmt.Fprintln(w, strings.Join(row, "\t"))
}

// Fields prints names and values, omitting empty ones.
func Fields(out io.Writer, fields [][2]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f[1] != "" {
			fmt.Fprintln(w, f[0]+"\t"+Visible(f[1]))
		}
	}
	return w.Flush()
}
