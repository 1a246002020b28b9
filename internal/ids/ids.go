// Package ids makes and checks identifiers.
package ids

import (
	"cmp"
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

// Separator stands between a tenant and a name in an id, as in acme::order-42. No tenant and no name contains it.
const Separator = "::"

// tenant matches the names of tenants.
var tenant = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckTenant returns what is wrong with the name of a tenant; "" if nothing is.
func CheckTenant(name string) string {
	if !tenant.MatchString(name) {
		return "must be 1 to 64 letters, digits, ., _ or -, and begin with a letter or digit"
	}
	return ""
}

// Split returns the tenant of an id and its name there. The tenant is empty for an id without one.
func Split(id string) (tenant, name string) {
	if tenant, name, ok := strings.Cut(id, Separator); ok {
		return tenant, name
	}
	return "", id
}

// In returns the id of a name in a tenant. Without a tenant, that is the name. An empty name stays empty.
func In(tenant, name string) string {
	if tenant == "" || name == "" {
		return name
	}
	return tenant + Separator + name
}

// InTenantOf returns the id of a name in the tenant of a session.
func InTenantOf(session, name string) string {
	tenant, _ := Split(session)
	return In(tenant, name)
}

// Qualify is InTenantOf for a name from outside, which may have the tenant already. A problem is what is wrong with a name
// that has another tenant, or an invalid one.
func Qualify(session, name string) (id, problem string) {
	if !strings.Contains(name, Separator) {
		return InTenantOf(session, name), ""
	}
	if problem = CheckTenancy(name); problem != "" {
		return "", problem
	}
	own, _ := Split(name)
	if tenant, _ := Split(session); own != tenant {
		return "", "belongs to another tenant than the session"
	}
	return name, ""
}

// CheckTenancy returns what is wrong with the tenant and name of an id that has a separator; "" if nothing is.
func CheckTenancy(id string) string {
	tenant, name, ok := strings.Cut(id, Separator)
	if !ok {
		return ""
	}
	if problem := CheckTenant(tenant); problem != "" {
		return fmt.Sprintf("has an invalid tenant %q: it %s", tenant, problem)
	}
	switch {
	case name == "":
		return "has no name after its tenant"
	case strings.Contains(name, Separator):
		return "contains " + Separator + " twice"
	}
	return ""
}

// CheckUser is Check for the name of a person, which may have a tenant.
func CheckUser(id string) string {
	_, name := Split(id)
	return cmp.Or(Check(id), CheckTenancy(id), Check(name))
}

// CheckSession is CheckPath for the id of a session or thread, which may have a tenant.
func CheckSession(id string) string {
	_, name := Split(id)
	return cmp.Or(CheckPath(id), CheckTenancy(id), CheckPath(name))
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
