package main

func Example() {
	main()
	// Output:
	// step 1: ""
	// calls lookup({"order":42})
	// step 2: "I promise that it arrives tomorrow."
	// step 3: "It is on its way."
	// session-1 after 3 steps and 214 tokens
	// It is on its way.
}
