package support

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// intent is what a user wants.
type intent struct {
	kind    kind
	orders  []int
	reason  string // reason for a refund
	sure    bool   // the refund was offered and accepted
	address string
	name    string // customer; empty for the one who is signed in
}

type kind int

const (
	smallTalk kind = iota
	greeting
	thanks
	declined
	status
	refunding
	moving
	listing
)

// The agent's questions. The user's next message is taken as the answer.
const (
	askOrder = "Which order is it about?"
	askOffer = "Shall I refund order "
	askPlace = "Where shall order "
	askName  = "Under which name were they placed?"
)

// understand returns what the user wants in the last turn, given the earlier turns.
func understand(list []turn) intent {
	now, before := list[len(list)-1], list[:len(list)-1]
	asked, said := "", ""
	if len(before) > 0 {
		asked, said = before[len(before)-1].text, before[len(before)-1].said
	}
	switch {
	case strings.Contains(said, askOrder) && len(numbers(now.text, true)) > 0:
		w := read(asked)
		w.orders = numbers(now.text, true)
		if w.kind == smallTalk {
			w.kind = status
		}
		return w
	case strings.Contains(said, askName) && nameLike.MatchString(now.text):
		return intent{kind: listing, name: strings.Trim(now.text, " .!")}
	case strings.Contains(said, askPlace):
		if n := numbers(said, false); len(n) > 0 && placeLike(now.text) {
			return intent{kind: moving, orders: n[:1], address: tidyPlace(now.text)}
		}
	case strings.Contains(said, askOffer):
		_, offer, _ := strings.Cut(said, askOffer)
		switch {
		case noWords.MatchString(now.text):
			return intent{kind: declined}
		case yesWords.MatchString(now.text):
			return intent{kind: refunding, orders: numbers("order "+offer, false), reason: reasonAround(before), sure: true}
		}
	}
	w := read(now.text)
	if len(w.orders) == 0 && (w.kind == refunding || w.kind == moving || w.kind == status) {
		w.orders = mentioned(before)
	}
	return w
}

var (
	helloWords   = words(`hi|hello|hey|good (?:morning|day|evening)`)
	thanksWords  = words(`thanks|thank you|thx|great|perfect|bye`)
	yesWords     = words(`yes|yeah|yep|sure|ok|okay|please|do it|go ahead`)
	noWords      = words(`no|nope|not|don'?t|never mind|wait`)
	whereWords   = words(`where|when|status|track|arrive|shipped|look up|what about|which address`)
	myWords      = words(`my orders|have i ordered|did i order`)
	addressWords = words(`address|ship|send|deliver|redirect|moved`)
	reasons      = []struct {
		reason string
		words  *regexp.Regexp
	}{
		{"broken", words(`broken|broke|damaged|defect\w*|cracked|shattered|smashed|scratched|leak\w*|(?:does not|doesn'?t|not) work\w*|dead`)},
		{"missing", words(`missing|lost|stolen|never (?:arrived|came|received|delivered|got)|(?:not|hasn'?t|didn'?t|haven'?t) (?:yet )?(?:arrived?|come?|received?|got|get)|empty`)},
		{"wrong", words(`wrong|not what i ordered`)},
		{"late", words(`late|too long|overdue`)},
		{"unwanted", words(`refund\w*|return|money back|don'?t want|do not want|cancel`)},
	}
	toPlace    = regexp.MustCompile(`(?i)\bto:?\s+(.+)$`)
	ordersOf   = regexp.MustCompile(`(?i)\borders\s+(?:of|for|by|from)\s+(\p{L}[\p{L} .'’-]*)`)
	nameOrders = regexp.MustCompile(`(\p{Lu}\p{L}+(?: \p{Lu}\p{L}+)*)['’]s? orders\b`)
	nameLike   = regexp.MustCompile(`^\s*\p{L}[\p{L}'’-]*(?: \p{L}[\p{L}'’-]*){0,2}[ .!]*$`)
	hasOrdered = regexp.MustCompile(`(?i)\bwhat (?:has|did) (\p{L}[\p{L} .'’-]*?) (?:order|buy|bought)`)
)

func words(list string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + list + `)\b`) }

// read returns what a single text asks for.
func read(text string) intent {
	text = strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "’", "'")
	orders := numbers(text, false)
	if len(orders) == 0 {
		if myWords.MatchString(text) {
			return intent{kind: listing}
		}
		for _, pattern := range []*regexp.Regexp{ordersOf, hasOrdered, nameOrders} {
			if m := pattern.FindStringSubmatch(text); m != nil {
				return intent{kind: listing, name: strings.Trim(m[1], " .")}
			}
		}
	}
	if addressWords.MatchString(text) {
		if m := toPlace.FindStringSubmatch(text); m != nil && placeLike(m[1]) {
			return intent{kind: moving, orders: numbers(strings.TrimSuffix(text, m[0]), true), address: tidyPlace(m[1])}
		}
	}
	for _, r := range reasons {
		if r.words.MatchString(text) {
			return intent{kind: refunding, orders: orders, reason: r.reason}
		}
	}
	switch {
	case words("address").MatchString(text) && words("change|new|another|other|different|wrong|moved").MatchString(text):
		return intent{kind: moving, orders: orders}
	case len(orders) > 0, whereWords.MatchString(text):
		return intent{kind: status, orders: orders}
	case thanksWords.MatchString(text):
		return intent{kind: thanks}
	case helloWords.MatchString(text):
		return intent{kind: greeting}
	}
	return intent{}
}

var (
	orderList  = regexp.MustCompile(`(?i)(?:\borders?(?: number| no\.?)?|#)\s*#?((?:\d{1,9}(?:\s*(?:,|and|&)\s*(?:order\s+)?#?)?)+)`)
	anyNumber  = regexp.MustCompile(`\d{1,9}`)
	loneNumber = regexp.MustCompile(`^\D{0,12}\b(\d{1,4})\b\D{0,3}$`)
)

// numbers returns the order numbers in a text. A number counts if it follows "order" or "#", or if it stands almost
// alone. With any, every number counts.
func numbers(text string, any bool) []int {
	var found []string
	for _, m := range orderList.FindAllStringSubmatch(text, -1) {
		found = append(found, anyNumber.FindAllString(m[1], -1)...)
	}
	if m := loneNumber.FindStringSubmatch(text); len(found) == 0 && m != nil {
		found = m[1:]
	}
	if len(found) == 0 && any {
		found = anyNumber.FindAllString(text, -1)
	}
	var list []int
	for _, text := range found {
		if n, err := strconv.Atoi(text); err == nil && n > 0 && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// mentioned returns the orders that the user mentioned last.
func mentioned(before []turn) []int {
	for _, t := range slices.Backward(before) {
		if w := read(t.text); len(w.orders) > 0 {
			return w.orders
		}
	}
	return nil
}

// reasonAround returns the reason given for the refund under discussion.
func reasonAround(before []turn) string {
	for _, t := range slices.Backward(before) {
		if w := read(t.text); w.kind == refunding {
			return w.reason
		}
	}
	return "unwanted"
}

// placeLike reports whether a text may be an address: it has a number, a comma, or more than two words.
func placeLike(text string) bool {
	return strings.ContainsAny(text, "0123456789,") || len(strings.Fields(text)) > 2
}

func tidyPlace(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, end := range []string{".", "!", "?", ", please", " please", ", thanks", " instead"} {
		text = strings.TrimSuffix(text, end)
	}
	return text
}
