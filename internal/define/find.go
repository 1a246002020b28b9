package define

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
)

// query is the input of a call of [cairn.FindTools]. Its methods rank tools.
type query struct {
	Query string `json:"query"`
	Limit int    `json:"limit"`
}

// answer is the result of the call.
type answer struct {
	Tools []found `json:"tools"`
	More  int     `json:"more,omitempty"`
	Note  string  `json:"note,omitempty"`
}

// found is a tool in an answer.
type found struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

const (
	maxAnswer  = 64 << 10 // bytes of definitions in an answer
	maxWords   = 32       // of a query that are considered
	namedTools = 40       // how many names an answer has if nothing was found
)

// The weights of a word by its position.
const (
	inName        = 4.0
	inDescription = 2.0
	inArguments   = 1.0
	begins        = 0.5 // fraction of a whole word's weight
)

// answer returns the tools of a list that match the query.
func (q *query) answer(list []cairn.Tool) answer {
	a := answer{Tools: []found{}}
	size := 0
	for _, at := range rank(q.Query, list) {
		spec := Of(&list[at]).Spec()
		size += len(spec.Name) + len(spec.Description) + len(spec.Schema)
		if len(a.Tools) == q.Limit || len(a.Tools) > 0 && size > maxAnswer {
			a.More++
			continue
		}
		a.Tools = append(a.Tools, found{Name: spec.Name, Description: spec.Description, InputSchema: spec.Schema})
	}
	if len(a.Tools) > 0 {
		return a
	}
	names := make([]string, 0, namedTools)
	for i := range list[:min(len(list), namedTools)] {
		names = append(names, list[i].Name())
	}
	a.Note = "No tool matches; search with other words."
	if len(names) > 0 {
		a.Note += fmt.Sprintf(" %d of %d tools: %s.", len(names), len(list), strings.Join(names, ", "))
	}
	return a
}

// rank returns the indexes of the tools that match, best first.
func rank(text string, list []cairn.Tool) []int {
	asked := words(text)
	slices.Sort(asked)
	asked = slices.Compact(asked)
	asked = asked[:min(len(asked), maxWords)]
	scores := make([]float64, len(list))
	known := make([]map[string]float64, len(list))
	for i := range list {
		known[i] = weights(Of(&list[i]))
	}
	hits := make([]float64, len(list))
	for _, word := range asked {
		having := 0
		for i := range list {
			if hits[i] = hit(word, known[i]); hits[i] > 0 {
				having++
			}
		}
		for i := range hits {
			scores[i] += hits[i] * math.Log(1+float64(len(list))/float64(max(having, 1)))
		}
	}
	name := strings.TrimSpace(text)
	var order []int
	for i := range list {
		if strings.EqualFold(name, list[i].Name()) {
			scores[i] = math.Inf(1)
		}
		if scores[i] > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return order
}

// hit returns the score of a word for a tool with the known words.
func hit(word string, known map[string]float64) float64 {
	best := known[word]
	if utf8.RuneCountInString(word) < 3 {
		return best
	}
	for other, weight := range known {
		if weight*begins > best && utf8.RuneCountInString(other) >= 3 && (strings.HasPrefix(other, word) || strings.HasPrefix(word, other)) {
			best = weight * begins
		}
	}
	return best
}

// weights returns the words of a tool, each with its highest weight.
func weights(t *Tool) map[string]float64 {
	m := map[string]float64{}
	add := func(text string, weight float64) {
		for _, word := range words(text) {
			m[word] = max(m[word], weight)
		}
	}
	add(t.Name, inName)
	for _, word := range t.Keywords {
		add(word, inName)
	}
	add(t.Description, inDescription)
	var input struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(t.Input.JSON(), &input) == nil {
		for name := range input.Properties {
			add(name, inArguments)
		}
	}
	return m
}

// words returns the words of a text in lower case: runs of letters and digits, split within names such as createInvoice
// too.
func words(text string) []string {
	var list []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			list = append(list, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	var before rune
	for _, r := range text {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
		case unicode.IsUpper(r) && unicode.IsLower(before):
			end()
			word = append(word, r)
		default:
			word = append(word, r)
		}
		before = r
	}
	end()
	return list
}
