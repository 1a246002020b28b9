package main

func Example() {
	main()
	// Output:
	// suspended for which_year
	// researcher has an answer of archive: completed
	// planner has an answer of researcher: completed
	// planner has an answer of critic: completed
	// planner has an answer of critic: completed
	// In 1999 the shop sold 12 lamps.
}
