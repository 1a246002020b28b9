// Package urls has what URLs of stores and of hosts share: their schemes, and how they are shown without passwords.
package urls

import (
	"net/url"
	"regexp"
	"strings"
)

var beginning = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:`) // two letters at least: C: is a drive

// Scheme returns the scheme with which a text begins, in lower case and empty if there is none, and what follows
// its colon.
func Scheme(text string) (name, rest string) {
	found := beginning.FindString(text)
	return strings.ToLower(strings.TrimSuffix(found, ":")), text[len(found):]
}

// Redacted returns a URL without its password, and with additional parameters.
func Redacted(text string, more map[string]string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "xxxxx"
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Set(name, "xxxxx")
		}
	}
	for name, value := range more {
		query.Set(name, value)
	}
	u.RawQuery = query.Encode()
	return u.Redacted()
}
