package cairn

import (
	"slices"
	"strings"
	"time"
)

// Find returns the entry of a model. An entry with exactly its provider and name comes first. Otherwise the name may be
// in one of the forms that providers and gateways give it:
//
//   - "claude-sonnet-5-20260101", "gpt-5-2026-08-01", "gpt-5-latest", "gemini-2.5-pro-001": with a version
//   - "claude-sonnet-5@20260101" on Vertex AI, "models/gemini-2.5-pro" in the Gemini API
//   - "anthropic/claude-sonnet-4.5" behind OpenRouter, "us.anthropic.claude-sonnet-4-5-20250929-v1:0" on Bedrock
//
// Upper case counts as lower case, and a dot as a hyphen. The vendor in a name determines whose entries are searched.
// Without a vendor, the entries of the model's provider are searched. For the providers "anthropic", "openai",
// "openai-chat" and "gemini" all other entries follow, since compatible servers use the adapters of these providers. A
// name with anything else after an entry's name names another model.
//
// The price is the price of the vendor's own API: surcharges of regions and prices of other hosts differ.
func (t ModelTable) Find(m ModelInfo) (ModelEntry, bool) {
	for i := range t {
		if t[i].Provider == m.Provider && t[i].Name == m.Name {
			return t[i], true
		}
	}
	vendor, names := spellings(m.Name)
	if names == nil {
		return ModelEntry{}, false
	}
	provider := strings.TrimSuffix(m.Provider, "-chat")
	scopes := []func(string) bool{func(of string) bool { return of == provider }}
	switch {
	case vendor != "":
		scopes = []func(string) bool{func(of string) bool { return of == vendor }}
	case slices.Contains(adapters, m.Provider):
		scopes = append(scopes, func(string) bool { return true })
	}
	for _, within := range scopes {
		for _, name := range names {
			for i := range t {
				if within(t[i].Provider) && folded(t[i].Name) == name {
					return t[i], true
				}
			}
		}
	}
	return ModelEntry{}, false
}

// adapters are the providers that also serve models of others.
var adapters = []string{"anthropic", "openai", "openai-chat", "gemini"}

// vendors are the providers of the table by the names that gateways give them. Names of hosts that set prices of their
// own for the same models are not among them.
var vendors = map[string]string{
	"anthropic": "anthropic", "openai": "openai", "google": "gemini", "gemini": "gemini", "x-ai": "xai", "xai": "xai", "deepseek": "deepseek",
	"mistralai": "mistral", "mistral": "mistral", "moonshotai": "moonshotai", "moonshot": "moonshotai", "z-ai": "zai", "zai": "zai",
	"qwen": "alibaba", "alibaba": "alibaba", "minimax": "minimax",
}

// carriers are elements of a path that name a gateway or a kind, and no vendor.
var carriers = []string{"openrouter", "bedrock", "vertex_ai", "vertex-ai", "models", "publishers"}

// regions are the prefixes of inference profiles on Bedrock.
var regions = []string{"us", "us-gov", "eu", "apac", "jp", "au", "ca", "sa", "global"}

// folded returns a name in the form in which names are compared.
func folded(name string) string { return strings.ReplaceAll(strings.ToLower(name), ".", "-") }

// spellings returns the vendor that a name of a model says, if any, and the names, folded, that its entry may have, in
// the order in which they are tried; nil if the name is of a vendor without entries.
func spellings(name string) (vendor string, names []string) {
	name = strings.ToLower(name)
	if path := strings.Split(name, "/"); len(path) > 1 {
		path = slices.DeleteFunc(path, func(s string) bool { return slices.Contains(carriers, s) || strings.HasPrefix(s, "arn:") })
		switch name = ""; len(path) {
		case 1:
			name = path[0]
		case 2:
			vendor, name = vendors[path[0]], path[1]
		}
		if name == "" || len(path) == 2 && vendor == "" {
			return "", nil
		}
	}
	if of, rest := bedrock(name); rest != "" {
		vendor, name = of, rest
	}
	names = []string{folded(name)}
	if rest, version, ok := strings.Cut(name, "@"); ok && (version == "default" || version == "latest" || isDate(version)) {
		names = append(names, folded(rest))
	}
	plain := names[len(names)-1]
	if rest, ok := strings.CutSuffix(plain, "-latest"); ok {
		return vendor, append(names, rest)
	}
	for _, n := range [...]int{len("-2006-01-02"), len("-20060102"), len("-001")} {
		if cut := len(plain) - n; cut > 0 && plain[cut] == '-' && (isDate(plain[cut+1:]) || isRevision(plain, plain[cut+1:])) {
			return vendor, append(names, plain[:cut])
		}
	}
	return vendor, names
}

// bedrock returns the vendor and the name in an id of a model on Bedrock, [REGION.]VENDOR.NAME[-vN[:N]]; rest is empty
// if name is not such an id.
func bedrock(name string) (vendor, rest string) {
	first, rest, ok := strings.Cut(name, ".")
	if ok && slices.Contains(regions, first) {
		first, rest, ok = strings.Cut(rest, ".")
	}
	if vendor = vendors[first]; !ok || vendor == "" {
		return "", ""
	}
	if base, revision, found := cutLast(rest, ":"); found && isDigits(revision) {
		rest = base
	}
	if base, version, found := cutLast(rest, "-v"); found && isDigits(version) {
		rest = base
	}
	return vendor, rest
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// isDate reports whether s is a date as versions of models have it.
func isDate(s string) bool {
	for _, layout := range [...]string{"2006-01-02", "20060102"} {
		if day, err := time.Parse(layout, s); err == nil && day.Year() >= 2020 && day.Year() < 2100 {
			return true
		}
	}
	return false
}

// isRevision reports whether s is the number of a stable version of a Gemini model.
func isRevision(name, s string) bool {
	return strings.HasPrefix(name, "gemini-") && len(s) == 3 && s[0] == '0' && isDigits(s)
}
