package engine_test

import (
	"context"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A turn whose reply was cut off reports it: in its outcome, to the guard, on the log and in the transcript.
func TestReplyThatIsCutOff(t *testing.T) {
	for reason, want := range map[cairn.FinishReason]cairn.Reason{
		cairn.FinishReasonEnd: cairn.ReasonReply, cairn.FinishReasonStopSequence: cairn.ReasonReply,
		cairn.FinishReasonLength: cairn.ReasonLength, cairn.FinishReasonWindow: cairn.ReasonWindow,
	} {
		for _, guarded := range []bool{false, true} {
			st := memstore.New(nil)
			defer st.Close()
			agent := &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Text("Once upon").FinishReason(reason))}
			var judged cairn.Reason
			if guarded {
				agent.Guard = func(_ context.Context, _ *cairn.Step, c cairn.Completion) (cairn.Verdict, error) {
					judged = c.Reason
					return cairn.Accept(), nil
				}
			}
			eng, err := engine.New(st, []*cairn.Agent{agent}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer eng.Close(context.Background())
			run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("a story"))
			if err != nil {
				t.Fatal(err)
			}
			res, err := run.Wait(t.Context())
			if err != nil || res.Status != cairn.RunCompleted || res.Reason != want || res.Text != "Once upon" || guarded && judged != want {
				t.Errorf("%s: the turn ended as %+v, %v; the guard was asked about %s", reason, res, err, judged)
			}
			var last cairn.Event
			for ev, err := range run.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				last = ev
			}
			messages, err := eng.Messages(t.Context(), "s", 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			if cut := messages[1].Cut; last.Reason != want || want == cairn.ReasonReply && cut != "" || want != cairn.ReasonReply && cut != reason {
				t.Errorf("%s: the log ends with %s, the reply is cut off by %q", reason, last.Reason, cut)
			}
		}
	}
}
