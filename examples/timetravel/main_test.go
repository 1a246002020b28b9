package main

func Example() {
	main()
	// Output:
	// story: {"lines":["A knight sets out.","He meets a dragon."]}
	// what-if: {"lines":["A knight sets out.","He falls asleep."]}
	// story: {"lines":["A knight sets out.","He meets a dragon."]}
	// checkpoint 1: turn 1, step 1, 3 messages
	// checkpoint 2: turn 1, step 2, 4 messages
	// checkpoint 3: turn 2, step 1, 7 messages
	// checkpoint 4: turn 2, step 2, 8 messages
	// story: {"lines":["A knight sets out."]}
	// story: {"lines":["A knight sets out.","She lets him pass."]}
}
