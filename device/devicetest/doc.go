// Package devicetest is a machine with devices that a test makes up.
//
// In: devices, and for each the readings that it will give, in order. Out: a
// [device.Reader]. It is for tests, and reads no machine.
package devicetest
