// Package ids makes and checks identifiers.
package ids

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxLength is the longest identifier accepted from outside, in bytes.
const MaxLength = 200

const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// New returns prefix, an underscore and 130 bits of randomness. It cannot be guessed.
func New(prefix string) string {
	var text [26]byte
	rand.Read(text[:]) // never fails
	for i := range text {
		text[i] = alphabet[text[i]%32]
	}
	return prefix + "_" + string(text[:])
}

// Short returns 60 bits of randomness, enough to distinguish a few things with the same name.
func Short() string {
	var text [12]byte
	rand.Read(text[:]) // never fails
	for i := range text {
		text[i] = alphabet[text[i]%32]
	}
	return string(text[:])
}

// Derive returns an identifier that depends only on its arguments: equal parts always give the same one. It has 130
// bits of SHA-256, so it cannot be guessed if one part is a secret.
func Derive(prefix string, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return prefix + "_" + encoding.EncodeToString(h.Sum(nil))[:26]
}

// Check returns what is wrong with an identifier from outside; "" if nothing is.
func Check(id string) string {
	switch {
	case id == "":
		return "is empty"
	case len(id) > MaxLength:
		return fmt.Sprintf("is too large: %d bytes (max %d)", len(id), MaxLength)
	case !utf8.ValidString(id):
		return "is not valid UTF-8"
	case strings.TrimSpace(id) != id:
		return "begins or ends with white space"
	case strings.ContainsFunc(id, unicode.IsControl):
		return "contains a control character"
	}
	return ""
}

// CheckPath is Check for an identifier that URLs have in their paths. Clients, servers and proxies leave out segments that
// are empty, . or .., and some do so for encoded slashes as well: the path would be that of something else.
func CheckPath(id string) string {
	if problem := Check(id); problem != "" {
		return problem
	}
	for segment := range strings.SplitSeq(id, "/") {
		switch segment {
		case "":
			return "has an empty path segment"
		case ".", "..":
			return "has the path segment " + segment
		}
	}
	return ""
}

// tool matches the names that every provider accepts.
var tool = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

// Tool reports whether a text can be the name of a tool: 1 to 64 letters, digits, _ or -, starting with a letter or _.
func Tool(name string) bool { return tool.MatchString(name) }

// Log returns the name of the event log of one incarnation of a root.
func Log(root, incarnation string) string {
	if incarnation == "" {
		return root
	}
	return root + "@" + incarnation
}
