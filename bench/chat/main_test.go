package main

import (
	"os"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/internal/testenv"
)

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) != "" {
		main()
		return
	}
	testenv.Main(m)
}

// Every answer of Cairn reaches its readers, and is whole in the end although the server was killed.
func TestChat(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-chats", "3", "-readers", "3", "-killed", "2", "-rounds", "2"}, &out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	for _, want := range []string{"| Readers with the whole answer | 18 of 18 |", "started again | 2, the last after "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q", want)
		}
	}
	for _, args := range [][]string{{"-chats", "0"}, {"-killed", "-1"}, {"-speed"}} {
		if err := run(t.Context(), args, &out); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
