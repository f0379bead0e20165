package outside

import "strings"

// Link is how cards of a kind talk to each other. A communicator holds buffers
// for each of its channels, and has more of them the faster the link is
// (https://github.com/NVIDIA/nccl/issues/986).
type Link string

const (
	UnknownLink Link = ""
	PCIe        Link = "PCIe"   // of a data centre's card, which may have bridges to others
	Bus         Link = "bus"    // PCIe, and at most a bridge between two cards
	NVLink      Link = "NVLink" // between all cards of a machine, through switches
)

// LinkOf is the link of a card by its name, as the driver spells it. Cards of
// work stations and of the lower shelves of a data centre talk over PCIe; a
// bridge between two of them is slower than switches are.
func LinkOf(arch, name string) Link {
	has := func(list ...string) bool {
		for _, word := range list {
			if strings.Contains(name, word) {
				return true
			}
		}
		return false
	}
	switch {
	case has("PCIe"):
		return PCIe
	case has("GeForce", "RTX", "TITAN", "Tesla T4", "Quadro"), arch == "Ada", arch == "Turing", arch == "Pascal":
		return Bus
	case has("SXM", "H100 80GB HBM3", "NVIDIA H200", "NVIDIA H20"):
		return NVLink
	}
	return UnknownLink
}
