package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := run(context.Background(), filepath.Join(dir, "cairn.db")); err != nil {
		fmt.Println(err)
	}
	// Output:
	// I have refunded order 42.
	// completed after 2 steps
}
