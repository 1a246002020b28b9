package main

func Example() {
	main()
	// Output:
	// loaded refunds
	// Yes. Up to 50 euros need no approval.
}
