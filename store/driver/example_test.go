package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

func ExampleNewStateChange() {
	at := cairn.StatePosition{Position: 7, KeyframeBytes: 100_000, ChangeBytes: 2_000}
	add := cairn.Op{Kind: cairn.OpAppend, Path: "/issued", Items: []json.RawMessage{json.RawMessage("42")}}
	change, err := driver.NewStateChange(at, json.RawMessage(`{"issued": [41]}`), []cairn.Op{add})
	fmt.Println(len(change.Ops), change.Keyframe == nil, err)
	// Output:
	// 1 true <nil>
}

func ExampleCreate() {
	ctx, st := context.Background(), memstore.New(nil)
	_, first := driver.Create(ctx, st, &cairn.Session{ID: "s1", Agent: "support"}, nil)
	_, second := driver.Create(ctx, st, &cairn.Session{ID: "s1", Agent: "support"}, nil)
	fmt.Println(first, errors.Is(second, cairn.ErrExists))
	// Output:
	// <nil> true
}

func ExampleCompareAndSetStatus() {
	ctx, st := context.Background(), memstore.New(nil)
	if _, err := driver.Create(ctx, st, &cairn.Session{ID: "s1", Agent: "support"}, nil); err != nil {
		fmt.Println(err)
		return
	}
	from := []cairn.SessionStatus{cairn.SessionPaused}
	seen, ok, err := driver.CompareAndSetStatus(ctx, st, "s1", from, cairn.SessionFailed)
	fmt.Println(seen.Status, seen.Version, ok, err)
	// Output:
	// idle 1 false <nil>
}

func ExampleNewBlobReader() {
	ctx, st := context.Background(), memstore.New(nil)
	row, err := driver.Create(ctx, st, &cairn.Session{ID: "s1", Agent: "support"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	blobs, owner := st.Blobs(), driver.OwnerOfBlobs(row)
	keys, err := blobs.Put(ctx, owner, []byte("a report"))
	if err != nil {
		fmt.Println(err)
		return
	}
	r := driver.NewBlobReader(ctx, blobs, owner, keys, 8, "the report")
	if _, err := r.Seek(2, io.SeekStart); err != nil {
		fmt.Println(err)
		return
	}
	text, err := io.ReadAll(r)
	fmt.Println(string(text), err)
	// Output:
	// report <nil>
}
