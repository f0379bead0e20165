package nvml

import "fmt"

// status is a nvmlReturn_t.
type status int32

const (
	success          status = 0
	notSupported     status = 3
	noPermission     status = 4
	insufficientSize status = 7
	// functionNotFound is what the library says of what it lacks, and what we say
	// for a symbol that it does not have.
	functionNotFound status = 13
)

// String says what a status means, in the words of nvml.h
// (https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html).
func (s status) String() string {
	switch s {
	case success:
		return "success"
	case 1:
		return "not initialised"
	case 2:
		return "invalid argument"
	case notSupported:
		return "not supported"
	case noPermission:
		return "insufficient permissions"
	case 6:
		return "not found"
	case insufficientSize:
		return "insufficient size"
	case 9:
		return "the driver is not loaded"
	case 10:
		return "timeout"
	case 12:
		return "a library of the driver was not found"
	case functionNotFound:
		return "the driver does not have this function"
	case 15:
		return "the GPU is lost: it fell off the bus"
	case 16:
		return "the GPU must be reset"
	case 17:
		return "the operating system refused"
	case 18:
		return "the library and the loaded driver differ in version: the machine needs a restart"
	case 20:
		return "no memory"
	case 21:
		return "no data"
	case 25:
		return "the version of the argument is not known"
	case 28:
		return "no GPU was found"
	case 999:
		return "unknown error"
	}
	return fmt.Sprintf("error %d", int32(s))
}
