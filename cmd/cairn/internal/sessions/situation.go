package sessions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
)

// sentence says why a session waits, its current activity, or the outcome of its last run.
func sentence(s *cairn.Situation, row *cairn.Session) string {
	since := " since " + output.Stamp(s.Since)
	at := " at " + output.Stamp(s.Since)
	switch s.Kind {
	case cairn.SituationApproval, cairn.SituationAnswer, cairn.SituationClientTool, cairn.SituationAccount, cairn.SituationEffect, cairn.SituationBudget:
		return waitsForPeople(s, row)
	case cairn.SituationChild:
		return waitsForChild(s)
	case cairn.SituationWorker:
		return "Waits for a worker" + since + "." + served(s, row)
	case cairn.SituationQueue:
		return "Waits for a worker to begin " + output.Count(s.Queued, "queued turn") + since + "." + served(s, row)
	case cairn.SituationRetry:
		return retries(s)
	case cairn.SituationModel:
		return "Waits for the model's reply" + since + "." + progress(s)
	case cairn.SituationWriting:
		return "Writes an answer" + since + "." + progress(s)
	case cairn.SituationTool:
		return "Runs " + s.Tool + since + "." + progress(s)
	case cairn.SituationRunning:
		return "Works" + since + "." + progress(s)
	case cairn.SituationTakeover:
		return fmt.Sprintf("Is to be taken over%s: %s was last seen %s.", since, s.Owner, output.Age(s.AsOf, s.SeenAt)) + served(s, row)
	case cairn.SituationStopping:
		return "Is being stopped" + by(s) + since + given(s.Reason) + "."
	case cairn.SituationDone:
		return "Done" + at + took(s) + "."
	case cairn.SituationStopped:
		return "Stopped" + by(s) + at + " after " + output.Count(s.Step, "step") + given(s.Reason) + ". The messages so far are kept."
	case cairn.SituationFailed:
		return failure(s, at)
	}
	return "No turn has begun yet."
}

// served names the workers that a session waits for, if there are none.
func served(s *cairn.Situation, row *cairn.Session) string {
	if s.Workers == nil || *s.Workers > 0 {
		return ""
	}
	return " No registered worker serves " + row.Agent + "."
}

func progress(s *cairn.Situation) string {
	text := fmt.Sprintf(" Step %d", s.Step)
	if s.MaxSteps > 0 {
		text += fmt.Sprintf(" of at most %d", s.MaxSteps)
	}
	if s.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", s.Attempt)
	}
	if s.Owner != "" {
		text += ", on " + s.Owner
	}
	return text + "."
}

// retries says which attempt has failed, and when the next one begins.
func retries(s *cairn.Situation) string {
	text := fmt.Sprintf("Attempt %d at step %d failed at %s%s.", s.Attempt-1, s.Step, output.Stamp(s.Since), because(s.Error))
	if s.Until.IsZero() {
		return text
	}
	return text + " The next attempt begins at " + output.Stamp(s.Until) + "."
}

// by names who stopped a run. A stop without a name and a reason is the application's.
func by(s *cairn.Situation) string {
	switch {
	case s.StoppedBy != "":
		return " by " + output.OneLine(s.StoppedBy, output.Width)
	case s.Kind == cairn.SituationStopped && cairn.Reason(s.Reason) == cairn.ReasonInterrupted:
		return " by the application"
	}
	return ""
}

func because(err *cairn.Error) string {
	if err == nil {
		return ""
	}
	return ": " + strings.TrimSuffix(output.OneLine(err.Message, output.Width), ".")
}

func given(reason string) string {
	switch cairn.Reason(reason) {
	case "", cairn.ReasonInterrupted, cairn.ReasonAborted:
		return ""
	}
	return ": " + strings.TrimSuffix(output.OneLine(reason, output.Width), ".")
}

func took(s *cairn.Situation) string {
	if s.StartedAt.IsZero() || s.EndedAt.IsZero() {
		return ""
	}
	return fmt.Sprintf(" in %s", s.EndedAt.Sub(s.StartedAt).Round(100*time.Millisecond))
}

func failure(s *cairn.Situation, at string) string {
	text := "Failed" + at + fmt.Sprintf(" in step %d", s.Step+1) + because(s.Error) + "."
	if s.StoppedBy != "" {
		text = "Aborted" + by(s) + at + fmt.Sprintf(" in step %d", s.Step+1) + given(s.Reason) + "."
	}
	if s.Error != nil && s.Error.Code == cairn.ErrMaxSteps {
		text = "Failed" + at + because(s.Error) + "."
	}
	if slices.Contains(s.Verbs, cairn.VerbRetry) {
		text += " A retry repeats the last step only."
	}
	return text
}

// waitsForPeople says who is to answer the call of a session, and what.
func waitsForPeople(s *cairn.Situation, row *cairn.Session) string {
	c, since := s.Call, " since "+output.Stamp(s.Since)
	user := row.User()
	if user == "" {
		user = "the user"
	}
	if c == nil {
		return "Waits for " + string(s.Kind) + since + "."
	}
	asked := " " + describe(c) + "."
	switch s.Kind {
	case cairn.SituationApproval:
		return "Waits for " + votes(c, "approval") + since + "." + asked + voted(c) + expires(s)
	case cairn.SituationAnswer:
		of := user
		if len(c.Reviewers) > 0 {
			of = strings.Join(c.Reviewers, ", ")
		}
		return "Waits for the answer of " + of + since + ": " + quoted(c.Prompt) + "." + voted(c) + expires(s)
	case cairn.SituationClientTool:
		return "Waits for a client of " + user + " to run " + c.Tool + since + "." + asked + expires(s)
	case cairn.SituationAccount:
		return "Waits for " + user + " to connect an account" + since + ": " + quoted(c.Prompt) + "." + expires(s)
	case cairn.SituationEffect:
		return c.Tool + " was running when its process died" + since + ". It may have happened: check before you settle it." + asked + expires(s)
	}
	return budget(c) + " Raise it or end the turn." + expires(s)
}

// votes names what is missing from whom.
func votes(c *cairn.CallBrief, noun string) string {
	open := slices.DeleteFunc(slices.Clone(c.Reviewers), func(name string) bool { return slices.Contains(c.Voted, name) })
	text := "an " + noun
	if len(c.Voted) > 0 {
		text = "another " + noun
	}
	if len(open) > 0 {
		text += " by " + strings.Join(open, ", ")
	}
	if c.ClaimedBy != "" {
		text += ", claimed by " + c.ClaimedBy
	}
	return text
}

func voted(c *cairn.CallBrief) string {
	if len(c.Voted) == 0 {
		return ""
	}
	return " Voted: " + strings.Join(c.Voted, ", ") + "."
}

func expires(s *cairn.Situation) string {
	if s.Until.IsZero() {
		return ""
	}
	return " Expires at " + output.Stamp(s.Until) + "."
}

// describe is a call with its arguments, or with the reason for an approval.
func describe(c *cairn.CallBrief) string {
	text := c.Tool
	if len(c.Input) > 0 {
		text += " " + string(c.Input)
	}
	if c.Prompt != "" {
		text += ": " + strings.TrimSuffix(c.Prompt, ".")
	}
	return output.OneLine(text, 2*output.Width)
}

func quoted(text string) string { return `"` + output.OneLine(text, output.Width) + `"` }

func budget(c *cairn.CallBrief) string {
	at := " at " + output.Stamp(c.CreatedAt)
	b := c.Budget
	if b == nil {
		return "The budget was used up" + at + "."
	}
	of := "this " + b.Per
	if b.Rule != "" {
		of = "rule " + b.Rule
	}
	return fmt.Sprintf("The budget was used up%s: %v of %v %s for %s.", at, b.Spent, b.Limit, b.Unit, of)
}

// waitsForChild names the sub-agent that waits or works, and what it waits for.
func waitsForChild(s *cairn.Situation) string {
	text := "Waits for " + s.Agent + ", which it consults, since " + output.Stamp(s.Since)
	c := s.Call
	if c == nil {
		return text + "." + expires(s)
	}
	nouns := map[cairn.CallKind]string{cairn.CallApproval: "approval", cairn.CallQuestion: "answer", cairn.CallConnect: "account",
		cairn.CallEffect: "answer about an effect", cairn.CallBudget: "increase of its budget", cairn.CallClientTool: "answer of a client"}
	return text + ". " + s.Agent + " waits for " + votes(c, nouns[c.Kind]) + ". " + describe(c) + "." + voted(c) + expires(s)
}
