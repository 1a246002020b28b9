package testenv_test

import (
	"testing"
	"time"

	"github.com/cairn-agents/cairn/internal/testenv"
)

func TestSoak(t *testing.T) {
	for _, test := range []struct {
		soak, kills, hours string
		want               int
		wantHours          time.Duration
	}{
		{"", "", "", 20, 0},
		{"1", "", "", 2000, 0},
		{"1", "7", "", 7, 0},
		{"", "7", "0.5", 7, 30 * time.Minute},
	} {
		t.Setenv("CAIRN_SOAK", test.soak)
		t.Setenv("KILLS", test.kills)
		t.Setenv("HOURS", test.hours)
		if got := testenv.Kills(t, 20, 2000); got != test.want {
			t.Errorf("%+v: %d kills", test, got)
		}
		if got := testenv.Hours(t); got != test.wantHours {
			t.Errorf("%+v: %s", test, got)
		}
		if testenv.Soak() != (test.soak == "1") {
			t.Errorf("%+v: soak is %t", test, testenv.Soak())
		}
	}
}
