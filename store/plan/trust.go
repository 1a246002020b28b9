package plan

import (
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// SetTrust sets the places at which a session became tainted and was cleared, in turn, on its row.
func SetTrust(row *cairn.Session, places []int) {
	if len(places) == 0 {
		places = nil
	}
	row.TrustAt, row.Tainted = places, len(places)%2 == 1
}

// trust records on the row where the commit's messages taint the session, or clear it. A summary states the trust anew.
func (d *Delta) trust(c *driver.Commit) {
	for i := range c.Messages {
		m := &c.Messages[i]
		tainted := d.Row.Tainted && m.Summary == nil
		if m.Hidden && m.Trust != "" {
			tainted = m.Trust == cairn.TrustTainted
		}
		if tainted != d.Row.Tainted {
			SetTrust(d.Row, append(slices.Clone(d.Row.TrustAt), d.FirstMessage+i))
		}
	}
}

// trustWithin returns those of the places that are among the first messages of a transcript.
func trustWithin(places []int, messages int) []int {
	n, _ := slices.BinarySearch(places, messages)
	return slices.Clone(places[:n])
}
