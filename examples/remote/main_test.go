package main

func Example() {
	main()
	// Output:
	// approved: refund {"order":"A-7"}
	// clerk has an answer of bank: completed
	// It is done.
}
