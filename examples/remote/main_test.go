package main

func Example() {
	main()
	// Output:
	// approved: refund {"order":"A-7"}
	// clerk heard from bank: completed
	// It is done.
}
