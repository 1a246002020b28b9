package main

import (
	"testing"
)

// TestStoryHappensToday plays the story with today's command: a recording that no longer shows what happens is to be
// made again, by make recording.
func TestStoryHappensToday(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, err := build(t.Context(), "../..", dir)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{screen: newScreen(columns), program: program, dir: dir, extra: []string{"--pace", "0s"}}
	if err := r.play(t.Context(), story); err != nil {
		t.Fatal(err)
	}
	checkStory(t, r.screen.transcript.String())
	if r.now != 0 {
		t.Errorf("a recording without time takes %v", r.now)
	}
}
