package main

func Example() {
	main()
	// Output:
	// Sam is looking for it.
	// sam, a companion: The parcel is in Lisbon.
	// Sam says that it is in Lisbon.
}
