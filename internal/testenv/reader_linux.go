package testenv

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

// nobody is the user without rights.
const nobody = 65534

// AsReader runs fn in the test's goroutine as a user that owns no files, so that permissions hold although tests run as
// root. Goroutines that fn starts are not affected. A test that does not run as root keeps its user.
func AsReader(t testing.TB, fn func()) {
	t.Helper()
	if os.Getuid() != 0 {
		fn()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Setfsuid(nobody); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setfsuid(0)
	fn()
}
