// Package environment is the report on this machine: cards and whose memory is
// in use, driver, Python, PyTorch, its backend, and allocator settings.
//
// In: the devices' readings, environment variables, and what an installed Python
// says of itself. Out: a report in which whatever could not be asked is missing,
// with the reason.
//
// Python is asked by a script, in a process of its own that is given a limited
// time. What the script finds without importing anything it says first, so that
// a PyTorch that hangs or crashes on import is still named with its version.
//
// It allocates nothing on a card unless it is asked to create a context, installs
// nothing, and judges nothing.
package environment
