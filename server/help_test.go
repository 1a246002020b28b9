package server

import (
	"io"
	"log/slog"

	"github.com/cairn-agents/cairn/store"
)

func newLogger(to io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(to, nil)) }

func callsOf(root string) store.CallQuery { return store.CallQuery{RootID: root} }

func anySession() store.SessionQuery { return store.SessionQuery{} }
