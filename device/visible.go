package device

// Backend is whose runtime a program uses; PyTorch calls both torch.cuda.
type Backend string

const (
	CUDA Backend = "cuda"
	HIP  Backend = "hip"
)

// Visibility is which devices a program sees, and in which order.
type Visibility struct {
	// Indexes are those of the devices, in the program's order: cuda:0 is the
	// first. −1 stands for a device that the program sees of which nobody can say
	// which it is.
	Indexes []int
	// Variables are those of the environment that decide, as they stand there.
	Variables []Variable
	// Notes say what a person should know of them: names that are misspelt,
	// entries that end the list.
	Notes []Note
}

// Variable is one of the environment's.
type Variable struct{ Name, Value string }

// Note is something to tell about the environment.
type Note struct {
	Code string // lower_snake_case
	Text string // a sentence
}

// Visible says which of a machine's devices a program sees that is started with
// these variables ("NAME=value", as os.Environ lists them).
func Visible(devices []Device, _ Backend, _ []string) Visibility {
	var v Visibility
	for i := range devices {
		v.Indexes = append(v.Indexes, i)
	}
	return v
}
