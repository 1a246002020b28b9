package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
)

// Analyzer makes the terms of texts: the terms by which entries are found, and the terms of a query. It must be safe for
// concurrent use, and depend on the text only.
type Analyzer interface {
	// Name identifies the analyzer and its version. It is stored with a scope; see [Memory.Reindex].
	Name() string
	// Terms returns the terms of a text, in order and with repetitions. Empty ones are left out, and one longer than 64
	// bytes is replaced by its digest.
	Terms(text string) []string
}

// English leaves out the words that nearly every English text has, and stems the rest by Snowball's English stemmer
// (Porter2). It is the default.
func English() Analyzer { return analyzer{"english-1", englishTerms} }

// Simple makes a term of each word, in lower case. It fits any language that puts spaces between words.
func Simple() Analyzer { return analyzer{"simple-1", words} }

// Bigrams makes a term of each pair of adjacent characters of Chinese, Japanese, Korean and Thai text, and of each word
// of other scripts.
func Bigrams() Analyzer { return analyzer{"bigrams-1", bigrams} }

type analyzer struct {
	name  string
	terms func(string) []string
}

func (a analyzer) Name() string               { return a.name }
func (a analyzer) Terms(text string) []string { return a.terms(text) }

// words returns the words of a text in lower case: runs of letters, digits and marks. An apostrophe within a word and
// what follows it is left out, so that the user's is user.
func words(text string) []string {
	var list []string
	start, cut := -1, -1
	flush := func(end int) {
		if start >= 0 {
			if cut >= 0 {
				end = cut
			}
			list = append(list, strings.ToLower(text[start:end]))
		}
		start, cut = -1, -1
	}
	for i, r := range text {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			if start < 0 {
				start = i
			}
		case (r == '\'' || r == '’') && start >= 0:
			if cut < 0 {
				cut = i
			}
		default:
			flush(i)
		}
	}
	flush(len(text))
	return list
}

// stopWords are words of grammar, which say nothing about the subject of a text.
var stopWords = set(`a about above after again against all also am an and any are aren as at be because been before being
	below between both but by can could couldn d did didn do does doesn doing don down during each few for from further
	had hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself
	just ll m me more most mustn my myself no nor not now of off on once only or other our ours ourselves out over own re
	s same shan she should shouldn so some such t than that the their theirs them themselves then there these they this
	those through to too under until up us ve very was wasn we were weren what when where which while who whom why will
	with won would wouldn you your yours yourself yourselves`)

func set(text string) map[string]bool {
	m := map[string]bool{}
	for _, word := range strings.Fields(text) {
		m[word] = true
	}
	return m
}

func englishTerms(text string) []string {
	list := words(text)
	kept := list[:0]
	for _, word := range list {
		if !stopWords[word] {
			kept = append(kept, stem(word))
		}
	}
	return kept
}

// stem returns the stem of an English word. Words with other characters than a to z are left as they are: numbers, and
// words of other languages.
func stem(word string) string {
	if len(word) > maxTerm {
		return word
	}
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return word
		}
	}
	return english.Stem(word, true)
}

func bigrams(text string) []string {
	var list []string
	for _, word := range words(text) {
		for word != "" {
			n := strings.IndexFunc(word, unspaced)
			if n < 0 {
				n = len(word)
			}
			if n > 0 {
				list = append(list, word[:n])
				word = word[n:]
				continue
			}
			n = strings.IndexFunc(word, func(r rune) bool { return !unspaced(r) })
			if n < 0 {
				n = len(word)
			}
			list = append(list, pairs(word[:n])...)
			word = word[n:]
		}
	}
	return list
}

// unspaced reports whether a character belongs to a script without spaces between words.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai) || r == 'ー'
}

func pairs(run string) []string {
	var list []string
	before := ""
	for i, r := range run {
		one := run[i : i+utf8.RuneLen(r)]
		if before != "" {
			list = append(list, before+one)
		}
		before = one
	}
	if list == nil {
		list = append(list, run)
	}
	return list
}

// maxTerm is the maximum size of a term in bytes.
const maxTerm = 64

// usable returns the form in which a term is stored; empty for none.
func usable(term string) string {
	if len(term) > maxTerm || !utf8.ValidString(term) || strings.ContainsFunc(term, unicode.IsControl) {
		sum := sha256.Sum256([]byte(term))
		return "#" + hex.EncodeToString(sum[:16])
	}
	return term
}

// count adds the terms of a text to counts.
func count(a Analyzer, counts map[string]int, text string) {
	if text == "" {
		return
	}
	for _, term := range a.Terms(text) {
		if term = usable(term); term != "" {
			counts[term]++
		}
	}
}

// fold returns the form in which names are compared.
func fold(name string) string { return strings.Join(words(name), " ") }
