package effects

import (
	"context"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/internal/wording"
)

// mender changes the conversation of a step that a provider refuses, so that the step can be repeated.
type mender struct {
	fx        *Effects
	a         *cairn.Agent
	l         *session.Live
	compacted bool // the history was summarised, or cannot be
	refusals  int  // of files
}

// mend returns a request in place of base, which the provider refused because of why: without the older part of the
// history if it was too long, without files if one is not accepted. The error is why if neither helps.
func (m *mender) mend(ctx context.Context, s *user.Scope, to *step.Reply, base *cairn.Request, why error) (*cairn.Request, error) {
	code := cairn.AsError(why).Code
	if code == cairn.ErrModelRequest { // by a model that does not distinguish these
		code, _ = wording.Conversation("", why.Error())
	}
	long := code == cairn.ErrContextLength
	if long && !m.compacted {
		m.compacted = true
		shorter, err := m.fx.refit(ctx, m.a, m.l, s, to, base, why)
		if err == nil || ctx.Err() != nil {
			return shorter, err
		}
		why = err
	}
	if !long && code != cairn.ErrFileRefused || !m.leaveOut(to, base, why) {
		return nil, why
	}
	return m.fx.before(ctx, m.l, s, base)
}

// maxReason is how many bytes of a provider's report are kept with the files that it refused.
const maxReason = 300

// leaveOut adds to the step's context that files are left out from now on, and removes them from the request. It reports
// false if the request has no files.
func (m *mender) leaveOut(to *step.Reply, req *cairn.Request, why error) bool {
	model, _ := define.Model(m.a, m.l.Run.Model)
	all := transcript.LeaveOut(append(m.l.Transcript(), to.Context...), m.l.First(), model.Info().ID())
	files, accepted := transcript.Files(all, m.l.First())
	if len(files) == 0 {
		return false
	}
	reason := limits.Cut(limits.Clean(why.Error()), maxReason)
	m.refusals++
	files = m.suspects(all, files, accepted, why.Error())
	note := cairn.Context("Files of this conversation are left out of requests: " + reason)
	note.LeftOut = &cairn.LeftOut{Files: files, Model: model.Info().ID(), Reason: reason}
	to.Context = append(to.Context, note)
	req.Messages = sent(m.l, model, to.Context)
	m.fx.Logger.Warn("model call failed; retrying without files", "session", m.l.Row.ID, "agent", m.a.Name, "model", model.Info().ID(), "files", len(files), "error", why)
	return true
}

// suspects returns the files that the provider may have refused: at first those whose address its report names, or else
// those that no reply has followed yet; then all.
func (m *mender) suspects(all []cairn.Message, files []cairn.FilePlace, accepted int, report string) []cairn.FilePlace {
	if m.refusals > 1 {
		return files
	}
	named := slices.DeleteFunc(slices.Clone(files), func(f cairn.FilePlace) bool {
		url := all[f.Message-m.l.First()].Parts[f.Part].File.URL
		return url == "" || !strings.Contains(report, url)
	})
	switch {
	case len(named) > 0:
		return named
	case accepted < len(files):
		return files[accepted:]
	}
	return files
}
