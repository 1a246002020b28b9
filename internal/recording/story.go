package main

import "time"

// scene is a command that is typed at the shell's prompt, or a comment.
type scene struct {
	shown string   // what is typed
	args  []string // the command's arguments; nil for a comment
	steps []step
	pause time.Duration // before what is typed next
}

// step waits for a text on the screen, and then types keys, kills the process, or ends the recording.
type step struct {
	await string
	pause time.Duration // before the keys
	keys  string
	kill  bool
	end   bool
}

// hold is how long the last picture is shown.
const hold = 4 * time.Second

// story is what the recording shows: a refund waits for a person, its process is killed, and another process finishes
// the turn.
var story = []scene{
	{shown: "cairn demo", args: []string{"demo"}, steps: []step{
		{await: "you: ", pause: 600 * time.Millisecond, keys: "Order 42 arrived broken\r"},
		{await: "[l]ater: ", pause: 2200 * time.Millisecond, kill: true},
	}, pause: 600 * time.Millisecond},
	{shown: "# kill -9 while a person decides: the call is a row in the store. An hour later, in another terminal:", pause: 900 * time.Millisecond},
	{shown: "cairn inbox approve call_ --reviewer ann", args: []string{"inbox", "approve", "call_", "--reviewer", "ann"},
		pause: 900 * time.Millisecond},
	{shown: "cairn demo", args: []string{"demo"}, steps: []step{
		{await: "(refund 1)"}, {await: "you: ", end: true},
	}},
}
