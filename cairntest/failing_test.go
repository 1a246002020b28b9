package cairntest_test

import (
	"fmt"
	"runtime"
	"testing"
)

// failing is a test that may fail.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Fatal(args ...any) {
	f.text = fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *failing) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }
