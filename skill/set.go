package skill

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
)

// Options are the options of a [Set]. The zero value is the default.
type Options struct {
	// Name is the name of the toolset among the agent's toolsets. Default: "skills".
	Name string
	// Preload are the names of skills whose instructions the model has from the beginning of a session. A name that no
	// provider has is logged and skipped.
	Preload []string
	// Logger gets warnings about skills. Default: slog.Default().
	Logger *slog.Logger
}

// Set is a set of skills: a toolset for Agent.Toolsets. It is safe for concurrent use, and several agents may have it.
type Set struct {
	skills  chain
	name    string
	preload []string
	logger  *slog.Logger

	mu     sync.Mutex
	warned map[string]bool // what was logged; once is enough
}

// New returns the set of the skills that providers find. If two skills have one name, the first counts. The error is
// ErrInvalid if there is no provider, one is nil, or a skill of [Define] is not valid.
func New(providers []Provider, opts *Options) (*Set, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if len(providers) == 0 {
		return nil, cairn.Invalid("providers", "are none")
	}
	for i, p := range providers {
		field := fmt.Sprintf("providers[%d]", i)
		if p == nil {
			return nil, cairn.Invalid(field, "is nil")
		}
		if d, ok := p.(*defined); ok {
			if problem := d.skill.problem(); problem != "" {
				return nil, cairn.Invalid(field, "%s", problem)
			}
		}
	}
	return &Set{skills: slices.Clone(providers), name: cmp.Or(o.Name, "skills"), preload: slices.Clone(o.Preload),
		logger: cmp.Or(o.Logger, slog.Default()), warned: map[string]bool{}}, nil
}

// problem returns what is wrong with a skill; "" if nothing is.
func (s *Skill) problem() string {
	switch {
	case checkName(s.Name) != "":
		return checkName(s.Name)
	case s.Description == "" || utf8.RuneCountInString(s.Description) > MaxDescription:
		return fmt.Sprintf("description: must have 1 to %d characters", MaxDescription)
	case len(s.Body) > MaxBody:
		return fmt.Sprintf("body: larger than %d KiB", MaxBody>>10)
	}
	return ""
}

// offer is what a session has pinned of a set.
type offer struct {
	// Skills is the catalogue, by name.
	Skills []entry `json:"skills"`
	// Loaded are the skills whose instructions the session began with.
	Loaded []loaded `json:"loaded,omitempty"`
}

// entry is a line of the catalogue.
type entry struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Origin and Digests are those of the Info.
	Origin  string            `json:"origin,omitempty"`
	Digests map[string]string `json:"digests,omitempty"`
}

// loaded is a preloaded skill as the model reads it.
type loaded struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Provider returns the skills of the set, for those who publish them.
func (s *Set) Provider() Provider { return s.skills }

// Name implements [cairn.Toolset].
func (s *Set) Name() string { return s.name }

// ReservedTools implements [cairn.ReservedToolset].
func (s *Set) ReservedTools() []string { return []string{LoadTool, ReadTool} }

// Offer implements [cairn.Toolset].
func (s *Set) Offer(ctx context.Context, step *cairn.Step, pinned json.RawMessage) (*cairn.Offer, error) {
	now, err := s.offer(ctx, step.Agent)
	if err != nil {
		return nil, err
	}
	if pinned == nil && len(now.Skills) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(now)
	if err != nil || bytes.Equal(raw, pinned) {
		return nil, err
	}
	note := now.text()
	if pinned != nil {
		note = "The skills have changed. " + note
	}
	return &cairn.Offer{Pinned: raw, Note: note}, nil
}

// offer returns the current catalogue with the preloaded skills.
func (s *Set) offer(ctx context.Context, agent string) (*offer, error) {
	infos, ignored, err := s.skills.survey(ctx)
	if err != nil {
		return nil, fmt.Errorf("list skills: %w", err)
	}
	for _, why := range ignored {
		s.warn(agent, "skill ignored", why)
	}
	now := &offer{Skills: make([]entry, 0, len(infos))}
	for _, info := range infos {
		for _, w := range info.Warnings {
			s.warn(agent, "skill has a mistake", info.Name+": "+w)
		}
		now.Skills = append(now.Skills, entry{info.Name, oneLine(info.Description), info.Origin, info.Digests})
	}
	now.Skills = s.fit(agent, now.Skills)
	slices.SortFunc(now.Skills, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	for _, name := range s.preload {
		sk, err := s.skills.Load(ctx, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			s.warn(agent, "skill not preloaded", name+": unknown skill")
		case err != nil:
			return nil, fmt.Errorf("preload skill %q: %w", name, err)
		default:
			now.Loaded = append(now.Loaded, loaded{name, sk.text()})
		}
	}
	return now, nil
}

// fit returns as many skills as a session can pin.
func (s *Set) fit(agent string, list []entry) []entry {
	total := 0
	for i, e := range list {
		total += len(e.Name) + len(e.Description) + len(e.Origin) + 64
		for path, digest := range e.Digests {
			total += len(path) + len(digest) + 8
		}
		if total > cairn.MaxPinnedBytes/2 {
			s.warn(agent, "skills omitted: the list is too large", fmt.Sprintf("%d of %d", len(list)-i, len(list)))
			return list[:i]
		}
	}
	return list
}

// oneLine joins the lines of a description, which has a line of the catalogue.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// warn logs a warning once.
func (s *Set) warn(agent, line, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := line + problem; !s.warned[key] {
		s.warned[key] = true
		s.logger.Warn(line, "agent", agent, "toolset", s.name, "problem", problem)
	}
}

// find returns the entry of a skill; nil for an unknown one.
func (o *offer) find(name string) *entry {
	for i := range o.Skills {
		if o.Skills[i].Name == name {
			return &o.Skills[i]
		}
	}
	return nil
}

// text returns the catalogue for the model.
func (o *offer) text() string {
	var b strings.Builder
	if len(o.Skills) == 0 {
		return "No skills are available any more."
	}
	fmt.Fprintf(&b, "Skills are instructions for particular tasks. Before you work on a task that one of them describes, call %s with its name, and follow its instructions. A skill is not a tool: it cannot be called.\n", LoadTool)
	for _, e := range o.Skills {
		fmt.Fprintf(&b, "\n- %s: %s", e.Name, e.Description)
	}
	for _, l := range o.Loaded {
		fmt.Fprintf(&b, "\n\n%s", l.Text)
	}
	return b.String()
}

// Restate implements [cairn.RestatedToolset]: a summary ends with the catalogue and the preloaded skills.
func (s *Set) Restate(pinned json.RawMessage) (string, error) {
	o, err := decodeOffer(pinned)
	if err != nil {
		return "", err
	}
	return o.text(), nil
}

func decodeOffer(pinned json.RawMessage) (*offer, error) {
	var o offer
	if err := json.Unmarshal(pinned, &o); err != nil {
		return nil, fmt.Errorf("decode pinned skills: %w", err)
	}
	return &o, nil
}
