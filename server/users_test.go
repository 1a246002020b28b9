package server

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn/internal/testclock"
)

// Users with nothing in use are forgotten. Others are not.
func TestIdleUsersAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUsers(1, 600)
		come := func(n int) {
			for i := range n {
				if err := u.request("user " + strconv.Itoa(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := u.stream("reader"); err != nil {
			t.Fatal(err)
		}
		come(3 * idleUsers)
		if n := len(u.list); n != 3*idleUsers+1 {
			t.Errorf("%d users are known of those who have just come", n)
		}
		testclock.Advance(time.Hour)
		for n := 0; len(u.list) > 3*idleUsers; n++ {
			if n > 2*3*idleUsers {
				t.Fatalf("%d users are known after an hour", len(u.list))
			}
			u.request("another " + strconv.Itoa(n)) // one request each
		}
		if _, err := u.stream("reader"); err == nil {
			t.Error("a user's stream was forgotten")
		}
	})
}
