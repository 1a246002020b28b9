package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
)

// A chat is read in pages, and so are its branches. A chat that has expired can be restored, one that exists deleted.
func TestChatRequests(t *testing.T) {
	var got []string
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.RequestURI())
		switch r.URL.RequestURI() {
		case "/api/chat/a%2Fb?limit=2":
			fmt.Fprint(w, `{"messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}]}],"next":"4.m","streaming":true,"cursor":"x.1"}`)
		case "/api/chat/a%2Fb?cursor=4.m":
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"code":"outdated","detail":"read it again"}`)
		case "/api/chat/a%2Fb/branches?limit=1":
			fmt.Fprint(w, `{"items":[{"id":"old","message_id":"m","created_at":"2026-01-02T03:04:05Z"}],"next":"n"}`)
		case "/api/sessions/a%2Fb/restore":
			fmt.Fprint(w, `{"id":"a/b","thread_id":"a/b"}`)
		case "/api/sessions/a%2Fb", "/api/chat/a%2Fb":
			if body, _ := io.ReadAll(r.Body); r.Method == "PATCH" && string(body) == `{"title":"","archived":true}` {
				fmt.Fprint(w, `{"id":"a/b","archived_at":"2026-01-02T03:04:05Z"}`)
			} else {
				w.WriteHeader(http.StatusNoContent)
			}
		case "/api/sessions?archived=all&latest=true&thread_id=a%2Fb":
			fmt.Fprint(w, `{"items":[]}`)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}, nil)
	chat, err := c.Chat(t.Context(), "a/b", 2, "")
	if err != nil || len(chat.Messages) != 1 || len(chat.Messages[0].Parts) != 1 || !chat.Streaming || chat.Next != "4.m" {
		t.Errorf("%+v, %v", chat, err)
	}
	if _, err := c.Chat(t.Context(), "a/b", 0, chat.Next); !errors.Is(err, cairn.ErrOutdated) {
		t.Errorf("a cursor at a replaced message: %v", err)
	}
	if list, err := c.Branches(t.Context(), "a/b", 1, ""); err != nil || len(list.Items) != 1 || list.Items[0].MessageID != "m" || list.Next != "n" {
		t.Errorf("%+v, %v", list, err)
	}
	if row, err := c.Restore(t.Context(), "a/b"); err != nil || row.ThreadID != "a/b" {
		t.Errorf("%+v, %v", row, err)
	}
	if _, err := c.Sessions(t.Context(), client.SessionQuery{ThreadID: "a/b", Latest: true, Archived: client.ArchivedAll}); err != nil {
		t.Error(err)
	}
	for _, set := range []func(context.Context, string, client.Change) (*cairn.Session, error){c.SetContext, c.SetChat} {
		if row, err := set(t.Context(), "a/b", client.Change{Title: new(""), Archived: new(true)}); err != nil || row.ArchivedAt.IsZero() {
			t.Errorf("%+v, %v", row, err)
		}
	}
	if err := c.DeleteChat(t.Context(), "a/b"); err != nil {
		t.Error(err)
	}
	if last := got[len(got)-2:]; !slices.Equal(last, []string{"PATCH /api/chat/a%2Fb", "DELETE /api/chat/a%2Fb"}) {
		t.Errorf("requests %q", last)
	}
}
