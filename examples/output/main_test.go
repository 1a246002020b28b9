package main

func Example() {
	main()
	// Output: order 42, high: the shade is broken (2 steps)
}
