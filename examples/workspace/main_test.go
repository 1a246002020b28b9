package main

func Example() {
	main()
	// Output:
	// workspace_shell: "3"
	// I have sorted the names.
	// workspace_read: "Ann\nBob\nZoe\n[The workspace was restored in a new sandbox: commands that ran in the background have ended, and files outside of it are gone.]"
	// Here they are.
}
