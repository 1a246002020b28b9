package driver

// Version1 is the contract between stores and their callers. It is an error at compile time, not at run time, to build
// a store with a contract that it was not written for: a store names the version that it implements,
//
//	const _ = driver.Version1
//
// and a release that changes the contract has another constant instead of this one.
const Version1 = 1
