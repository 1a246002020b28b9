package shop_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/shop"
)

func at(stamp string) func() time.Time {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		panic(err)
	}
	return func() time.Time { return t }
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	s, err := shop.Open(ctx, filepath.Join(dir, "shop.db"), at("2026-11-20T12:00:00Z"))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	order, err := s.Order(ctx, 42)
	fmt.Println(order.Item, order.Total, err)
	refund, err := s.Refund(ctx, "call-1", 42, "broken")
	fmt.Println(refund.Amount, err)
	again, err := s.Refund(ctx, "call-1", 42, "broken")
	fmt.Println(again == refund, err)
	// Output:
	// Espresso cups, set of 4 24.50 EUR <nil>
	// 24.50 EUR <nil>
	// true <nil>
}

// open opens a new shop for a test and returns its path as well.
func open(t *testing.T) (*shop.Shop, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	return reopen(t, path), path
}

func reopen(t *testing.T, path string) *shop.Shop {
	t.Helper()
	s, err := shop.Open(t.Context(), path, at("2026-11-20T12:00:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestOrders(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	for _, test := range []struct {
		customer string
		want     string
	}{
		{"Ada Lovelace", "41 42 48"},
		{"ada", "41 42 48"},
		{"  grace   HOPPER ", "43 45"},
		{"johnson", "46 51"},
		{"Ad", ""},
		{"%", ""},
		{"Charles Babbage", ""},
	} {
		list, err := s.Orders(t.Context(), test.customer)
		if err != nil {
			t.Errorf("%q: %v", test.customer, err)
		}
		var numbers []string
		for _, o := range list {
			numbers = append(numbers, fmt.Sprint(o.Number))
		}
		if got := strings.Join(numbers, " "); got != test.want {
			t.Errorf("orders of %q: %s, want %s", test.customer, got, test.want)
		}
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	ctx := t.Context()
	if _, err := s.Refund(ctx, "other-key", 42, "broken"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ChangeAddress(ctx, "other-key", 43, "1 New Street"); err != nil {
		t.Fatal(err)
	}
	refund := func(key string, number int) error { _, err := s.Refund(ctx, key, number, "broken"); return err }
	move := func(key string, number int, address string) error {
		_, err := s.ChangeAddress(ctx, key, number, address)
		return err
	}
	_, missing := s.Order(ctx, 7)
	_, nobody := s.Orders(ctx, " ")
	for name, test := range map[string]struct {
		err  error
		code cairn.Code
		want string
	}{
		"no such order":        {missing, cairn.ErrNotFound, "order 7 not found"},
		"no customer":          {nobody, cairn.ErrInvalid, "customer: is empty"},
		"refund of nothing":    {refund("k", 7), cairn.ErrNotFound, "order 7 not found"},
		"refund without key":   {refund("", 41), cairn.ErrInvalid, "key: is empty"},
		"second refund":        {refund("k", 42), cairn.ErrTool, "order 42 was already refunded: 24.50 EUR on 2026-11-20"},
		"refund of cancelled":  {refund("k", 49), cairn.ErrTool, "order 49 was cancelled and never charged"},
		"refund key reused":    {refund("other-key", 41), cairn.ErrInvalid, "key: was already used for order 42, not 41"},
		"address of nothing":   {move("k", 7, "1 New Street"), cairn.ErrNotFound, "order 7 not found"},
		"address without key":  {move("", 48, "1 New Street"), cairn.ErrInvalid, "key: is empty"},
		"empty address":        {move("k", 48, " \n"), cairn.ErrInvalid, "address: is empty"},
		"endless address":      {move("k", 48, strings.Repeat("x", 501)), cairn.ErrInvalid, "address: is too large: 501 bytes (max 500)"},
		"binary address":       {move("k", 48, "1 \xff Street"), cairn.ErrInvalid, "address: is not valid UTF-8"},
		"address when shipped": {move("k", 44, "1 New Street"), cairn.ErrTool, "order 44 is shipped: its address can no longer be changed"},
		"address key reused":   {move("other-key", 48, "1 New Street"), cairn.ErrInvalid, "key: was already used for order 43, not 48"},
	} {
		var e *cairn.Error
		if !errors.As(test.err, &e) || e.Code != test.code || e.Message != test.want {
			t.Errorf("%s: %v, want %s: %s", name, test.err, test.code, test.want)
		}
	}
	for _, number := range []int{41, 44, 48} { // a refused change has no effect
		o, err := s.Order(ctx, number)
		if err != nil || o.Refund != nil || strings.Contains(o.Address, "New Street") {
			t.Errorf("order %d: %+v, %v", number, o, err)
		}
	}
}

func TestChangesHappenOncePerKey(t *testing.T) {
	t.Parallel()
	s, path := open(t)
	ctx := t.Context()
	first, err := s.Refund(ctx, "key-1", 42, "broken")
	if err != nil {
		t.Fatal(err)
	}
	moved, err := s.ChangeAddress(ctx, "key-2", 43, "1 New  Street")
	if err != nil || moved.Address != "1 New Street" {
		t.Fatal(moved, err)
	}
	if _, err := s.ChangeAddress(ctx, "key-3", 43, "2 Newer Street"); err != nil {
		t.Fatal(err)
	}

	other := reopen(t, path) // as after a crash
	again, err := other.Refund(ctx, "key-1", 42, "broken")
	if err != nil || again != first {
		t.Errorf("second refund with one key: %+v, %v; want %+v", again, err, first)
	}
	moved, err = other.ChangeAddress(ctx, "key-2", 43, "1 New Street")
	if err != nil || moved.Address != "2 Newer Street" {
		t.Errorf("a key that was used moved the order again: %+v, %v", moved, err)
	}
	o, err := other.Order(ctx, 42)
	if err != nil || o.Refund == nil || *o.Refund != first {
		t.Errorf("order 42: %+v, %v", o, err)
	}
}

func TestRefundCancelsWhatWasNotSent(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	if _, err := s.Refund(t.Context(), "k", 51, "unwanted"); err != nil {
		t.Fatal(err)
	}
	if o, err := s.Order(t.Context(), 51); err != nil || o.Status != shop.Cancelled || o.Refund == nil {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestManyProcesses opens several shops on one file concurrently, and refunds one order under many keys.
func TestManyProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.db")
	var wg sync.WaitGroup
	var mu sync.Mutex
	done, refused := 0, 0
	for i := range 8 {
		wg.Go(func() {
			s, err := shop.Open(t.Context(), path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			_, err = s.Refund(t.Context(), fmt.Sprint("key", i), 47, "late")
			mu.Lock()
			defer mu.Unlock()
			var e *cairn.Error
			switch {
			case err == nil:
				done++
			case errors.As(err, &e) && e.Code == cairn.ErrTool:
				refused++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if done != 1 || refused != 7 {
		t.Errorf("%d refunds, %d refused; want 1 and 7", done, refused)
	}
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "notes.db")
	notes := strings.Repeat("these are notes, not a database\n", 64)
	if err := os.WriteFile(text, []byte(notes), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := shop.Open(t.Context(), text, nil); err == nil {
		t.Error("a text file was opened as a shop")
	}
	if got, err := os.ReadFile(text); err != nil || string(got) != notes {
		t.Error("the text file was changed")
	}
	other := filepath.Join(t.TempDir(), "other.db")
	db, err := sql.Open("sqlite", other)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE orders (number INTEGER)"); err != nil {
		t.Fatal(err)
	}
	if _, err := shop.Open(t.Context(), other, nil); !errors.Is(err, cairn.ErrSchema) {
		t.Errorf("a database of something else: %v", err)
	}
	var tables int
	if err := db.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil || tables != 1 {
		t.Errorf("the database of something else has %d tables now, %v", tables, err)
	}
	if _, err := shop.Open(t.Context(), filepath.Join(t.TempDir(), "no", "such", "dir.db"), nil); !errors.Is(err, cairn.ErrUnavailable) {
		t.Errorf("a directory that does not exist: %v", err)
	}
	if _, err := shop.Open(t.Context(), "", nil); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("an empty path: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := shop.Open(ctx, filepath.Join(t.TempDir(), "shop.db"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context: %v", err)
	}
}

func TestEuro(t *testing.T) {
	t.Parallel()
	for _, e := range []shop.Euro{0, 5, 99, 100, 3990, -250, -5} {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back shop.Euro
		if err := json.Unmarshal(raw, &back); err != nil || back != e {
			t.Errorf("%d: %s: %d, %v", e, raw, back, err)
		}
	}
	for _, text := range []string{`""`, `"39"`, `"39.9 EUR"`, `"39.90"`, `"x39.90 EUR"`, `39`} {
		var e shop.Euro
		if err := json.Unmarshal([]byte(text), &e); err == nil {
			t.Errorf("%s was read as %s", text, e)
		}
	}
}

// A process that is stopped while it reads keeps no other from writing.
func TestOpenReadBlocksNoRefund(t *testing.T) {
	t.Parallel()
	s, path := open(t)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT * FROM orders")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if !rows.Next() {
		t.Fatal(rows.Err())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := s.Refund(ctx, "key", 42, "broken"); err != nil {
		t.Fatal(err)
	}
}

// Processes that open an empty file at the same moment all get the shop.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	for range 20 {
		path := filepath.Join(t.TempDir(), "shop.db")
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				s, err := shop.Open(t.Context(), path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				s.Close()
			})
		}
		all.Wait()
	}
}
