package main

func Example() {
	main()
	// Output:
	// ann: Noted.
	// bob: Noted.
	// ann: I have booked a table with a vegetarian menu.
}
