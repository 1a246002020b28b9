package main

func Example() {
	main()
	// Output:
	// suspended_awaiting_children for which_year
	// researcher heard from archive: completed
	// planner heard from researcher: completed
	// planner heard from critic: completed
	// planner heard from critic: completed
	// In 1999 the shop sold 12 lamps.
}
