package snapshot

import "hash/maphash"

// addresses finds the latest allocation at an address. It is an open table of
// four bytes a slot, because a long trace has as many addresses as allocations;
// its seed is drawn, so that no file can choose addresses that collide.
type addresses struct {
	seed  maphash.Seed
	slots []uint32 // 1 + the index of an allocation
	used  int
}

func newAddresses() addresses {
	return addresses{seed: maphash.MakeSeed(), slots: make([]uint32, 1<<6)}
}

// slot is where the address is, or where it would be entered. of is the address
// of each allocation.
func (h *addresses) slot(address uint64, of []uint64) int {
	mask := len(h.slots) - 1
	i := int(maphash.Comparable(h.seed, address)) & mask
	for h.slots[i] != 0 && of[h.slots[i]-1] != address {
		i = (i + 1) & mask
	}
	return i
}

// at is the latest allocation at an address.
func (h *addresses) at(address uint64, of []uint64) (alloc uint32, ok bool) {
	found := h.slots[h.slot(address, of)]
	return found - 1, found != 0
}

// set makes an allocation the latest at its address.
func (h *addresses) set(alloc uint32, of []uint64) {
	i := h.slot(of[alloc], of)
	if h.slots[i] == 0 {
		h.used++
	}
	h.slots[i] = alloc + 1
	if 2*h.used > len(h.slots) {
		h.grow(of)
	}
}

func (h *addresses) grow(of []uint64) {
	old := h.slots
	h.slots = make([]uint32, 2*len(old))
	for _, entry := range old {
		if entry != 0 {
			h.slots[h.slot(of[entry-1], of)] = entry
		}
	}
}
