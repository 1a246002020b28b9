package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Names of the contenders that ratios refer to, and of the floor whose writers share transactions.
const (
	floorName  = "hand-written"
	cairnName  = "Cairn"
	joinedName = "hand-written, joined"
)

// tables formats the results as Markdown tables. For each server they show the cost of a step with one writer, the
// rate with each other number of writers, and the bytes that a step adds.
func tables(list []contender, r *results) string {
	var b strings.Builder
	for _, on := range []server{onPostgres, onRedis} {
		var there []int
		for i := range list {
			if list[i].on == on {
				there = append(there, i)
			}
		}
		if len(there) == 0 {
			continue
		}
		for _, writers := range r.plan.writers {
			title := fmt.Sprintf("%s: cost of a step, one writer", on)
			if writers > 1 {
				title = fmt.Sprintf("%s: steps per second, %d writers", on, writers)
			}
			cost := func(i, n int) float64 { return 1000 / r.cells[cellKey{i, n, writers}].rate() }
			text := func(i, n int) string {
				if r.cells[cellKey{i, n, writers}].rate() == 0 {
					return notTaken
				}
				out := number(cost(i, n)) + " ms"
				if writers > 1 {
					out = number(1000/cost(i, n)) + "/s"
				}
				if rounds := len(r.cells[cellKey{i, n, writers}].rates); rounds < r.plan.rounds {
					out += fmt.Sprintf(" (cut off after %d of %d rounds)", rounds, r.plan.rounds)
				}
				return out
			}
			writeTable(&b, list, r.plan.lengths, there, title, cost, text)
		}
		size := func(i, n int) float64 { return r.bytes[bytesKey{i, n}] }
		writeTable(&b, list, r.plan.lengths, there, fmt.Sprintf("%s: bytes stored per step", on), size,
			func(i, n int) string { return thousands(size(i, n)) })
	}
	return b.String()
}

// writeTable writes a row for each contender and a column for each length of history. Two more columns show the
// ratio of the contender's cost to the floor's and to Cairn's, with the shortest and with the longest history.
func writeTable(
	b *strings.Builder, list []contender, lengths, there []int, title string, cost func(i, n int) float64, text func(i, n int) string,
) {
	fmt.Fprintf(b, "%s, after so many messages:\n\n| |", title)
	for _, n := range lengths {
		fmt.Fprintf(b, " %s |", thousands(float64(n)))
	}
	fmt.Fprintf(b, " to the floor | to Cairn |\n|%s\n", strings.Repeat(" --- |", len(lengths)+3))
	for _, i := range there {
		fmt.Fprintf(b, "| %s |", list[i].name)
		for _, n := range lengths {
			fmt.Fprintf(b, " %s |", text(i, n))
		}
		for _, name := range []string{floorName, cairnName} {
			j := there[slices.IndexFunc(there, func(j int) bool { return list[j].name == name })]
			taken := slices.DeleteFunc(slices.Clone(lengths), func(n int) bool { return text(i, n) == notTaken })
			ratio := func(n int) string { return number(cost(i, n) / cost(j, n)) }
			if len(taken) == 0 {
				fmt.Fprintf(b, " %s |", notTaken)
				continue
			}
			first, last := ratio(taken[0]), ratio(taken[len(taken)-1])
			switch {
			case i == j:
				b.WriteString(" 1 |")
			case first == last:
				fmt.Fprintf(b, " %s |", first)
			default:
				fmt.Fprintf(b, " %s to %s |", first, last)
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// notTaken is the text of a cell that its system cannot take.
const notTaken = "–"

// number formats a number with two significant digits, or with all digits before the point.
func number(v float64) string {
	if v >= 10 || v == 0 {
		return thousands(v)
	}
	digits := 1 - int(math.Floor(math.Log10(v)))
	return fmt.Sprintf("%.*f", digits, v)
}

// thousands formats a whole number with grouped digits.
func thousands(v float64) string {
	text := fmt.Sprintf("%.0f", v)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
