package device

import (
	"slices"
	"strings"
	"testing"
)

// pair is two cards alike, unlike is two others, and divided is a card with two
// MIG instances beside a whole one.
func pair() []Device {
	return []Device{
		{Vendor: "NVIDIA", Name: "NVIDIA H100", UUID: "GPU-aa11", Card: 0},
		{Vendor: "NVIDIA", Name: "NVIDIA H100", UUID: "GPU-ab22", Card: 1},
		{Vendor: "NVIDIA", Name: "NVIDIA H100", UUID: "GPU-cc33", Card: 2},
	}
}

func unlike() []Device {
	return []Device{
		{Vendor: "NVIDIA", Name: "NVIDIA GeForce RTX 3060", UUID: "GPU-aa11", Card: 0},
		{Vendor: "NVIDIA", Name: "NVIDIA GeForce RTX 4090", UUID: "GPU-bb22", Card: 1},
	}
}

func divided() []Device {
	return []Device{
		{Vendor: "NVIDIA", Name: "NVIDIA A100", UUID: "GPU-aa11", Card: 0, Partitioned: true},
		{Vendor: "NVIDIA", Name: "NVIDIA A100 MIG 1g.5gb", UUID: "MIG-11", Card: 0, Kind: MIG, Partition: &Partition{GPUInstance: 7, ComputeInstance: 0}},
		{Vendor: "NVIDIA", Name: "NVIDIA A100 MIG 1g.5gb", UUID: "MIG-12", Card: 0, Kind: MIG, Partition: &Partition{GPUInstance: 8, ComputeInstance: 0}},
		{Vendor: "NVIDIA", Name: "NVIDIA A100", UUID: "GPU-bb22", Card: 1},
		{Vendor: "NVIDIA", Name: "NVIDIA A100", UUID: "GPU-cc33", Card: 2, Partitioned: true},
	}
}

func TestVisibleToCUDA(t *testing.T) {
	for _, c := range []struct {
		environ string // separated by spaces; "NAME=" is set and empty
		devices []Device
		want    []int
		note    string // code of the only note
	}{
		{"", pair(), []int{0, 1, 2}, ""},
		{"CUDA_VISIBLE_DEVICES=", pair(), nil, "devices_hidden"},
		{"CUDA_VISIBLE_DEVICES=2,0", pair(), []int{2, 0}, ""},
		{"CUDA_VISIBLE_DEVICES=1gpu2,2ampere", pair(), []int{1, 2}, ""},
		{"CUDA_VISIBLE_DEVICES=-1", pair(), nil, "devices_cut"},
		{"CUDA_VISIBLE_DEVICES=0,2,-1,1", pair(), []int{0, 2}, "devices_cut"}, // the documentation's example
		{"CUDA_VISIBLE_DEVICES=0,3,1", pair(), []int{0}, "devices_cut"},
		{"CUDA_VISIBLE_DEVICES=1,1", pair(), nil, "devices_repeated"},
		{"CUDA_VISIBLE_DEVICES=none", pair(), nil, "devices_cut"},
		{"CUDA_VISIBLE_DEVICES=99999999999999999999", pair(), nil, "devices_cut"},
		{"CUDA_VISIBLE_DEVICES=GPU-cc33,GPU-aa11", pair(), []int{2, 0}, ""},
		{"CUDA_VISIBLE_DEVICES=GPU-c", pair(), []int{2}, ""},
		{"CUDA_VISIBLE_DEVICES=GPU-a", pair(), nil, "devices_cut"}, // begins two
		{"CUDA_VISIBLE_DEVICES=GPU-cc33,GPU-nope,GPU-aa11", pair(), []int{2}, "devices_cut"},
		{"CUDA_VISIBLE_DEVICES=GPU-cc33,0", pair(), []int{2}, "devices_cut"}, // kinds do not mix
		{"CUDA_VISIBLE_DEVICES=GPU-cc33,GPU-cc", pair(), nil, "devices_repeated"},

		{"", unlike(), []int{-1, -1}, "device_order_unknown"},
		{"CUDA_VISIBLE_DEVICES=1", unlike(), []int{-1}, "device_order_unknown"},
		{"CUDA_VISIBLE_DEVICES=1 CUDA_DEVICE_ORDER=PCI_BUS_ID", unlike(), []int{1}, ""},
		{"CUDA_VISIBLE_DEVICES=1 CUDA_DEVICE_ORDER=FASTEST_FIRST", unlike(), []int{-1}, "device_order_unknown"},
		{"CUDA_VISIBLE_DEVICES=GPU-bb22", unlike(), []int{1}, ""},

		{"CUDA_VISIBLE_DEVICES=MIG-12", divided(), []int{2}, ""},
		{"CUDA_VISIBLE_DEVICES=MIG-12,MIG-11", divided(), []int{2}, "one_partition"},
		{"CUDA_VISIBLE_DEVICES=MIG-GPU-aa11/8/0", divided(), []int{2}, ""},
		{"CUDA_VISIBLE_DEVICES=0", divided(), []int{1}, "one_partition"}, // two instances, one is seen
		{"CUDA_VISIBLE_DEVICES=1", divided(), []int{3}, ""},
		{"CUDA_VISIBLE_DEVICES=2", divided(), nil, "no_partition"},

		{"CUDA_VISIBLE_DEVICE=1", pair(), []int{0, 1, 2}, "variable_misspelt"},
		{"CUDA_VISBLE_DEVICES=1", pair(), []int{0, 1, 2}, "variable_misspelt"},
		{"cuda_visible_devices=1", pair(), []int{0, 1, 2}, "variable_misspelt"},
		{"CUDA_DEVICES_VISIBLE=1", pair(), []int{0, 1, 2}, "variable_misspelt"},
		{"NVIDIA_VISIBLE_DEVICES=all CUDA_HOME=/usr", pair(), []int{0, 1, 2}, ""},
		{"HIP_VISIBLE_DEVICES=1", pair(), []int{0, 1, 2}, ""}, // not CUDA's
		{"", nil, nil, ""},
	} {
		v := Visible(c.devices, CUDA, strings.Fields(c.environ))
		if !slices.Equal(v.Indexes, c.want) {
			t.Errorf("%q: %v, want %v", c.environ, v.Indexes, c.want)
		}
		switch {
		case len(v.Notes) > 1, len(v.Notes) == 1 && v.Notes[0].Code != c.note, len(v.Notes) == 0 && c.note != "":
			t.Errorf("%q: notes %+v, want %q", c.environ, v.Notes, c.note)
		}
	}
}

func TestVisibleToHIP(t *testing.T) {
	devices := []Device{
		{Vendor: "NVIDIA", UUID: "GPU-zz", Card: 0},
		{Vendor: "AMD", UUID: "GPU-a1b2", Card: 0},
		{Vendor: "AMD", UUID: "GPU-c3d4", Card: 1},
		{Vendor: "AMD", UUID: "GPU-e5f6", Card: 2},
	}
	for _, c := range []struct {
		environ string
		want    []int
		note    string
	}{
		{"", []int{1, 2, 3}, ""},
		{"HIP_VISIBLE_DEVICES=2,0", []int{3, 1}, ""},
		{"HIP_VISIBLE_DEVICES=", []int{1, 2, 3}, ""}, // hides nothing, unlike CUDA's
		{"CUDA_VISIBLE_DEVICES=1", []int{2}, ""},
		{"CUDA_VISIBLE_DEVICES=1 HIP_VISIBLE_DEVICES=0", []int{1}, ""},
		{"HIP_VISIBLE_DEVICES= CUDA_VISIBLE_DEVICES=2", []int{3}, ""},
		{"ROCR_VISIBLE_DEVICES=1,2 HIP_VISIBLE_DEVICES=1", []int{3}, ""},
		{"ROCR_VISIBLE_DEVICES=GPU-E5F6,0", []int{3, 1}, ""},
		{"ROCR_VISIBLE_DEVICES=0 HIP_VISIBLE_DEVICES=1", nil, "devices_cut"},
		{"HIP_VISIBLE_DEVICES=0,0,1", []int{1, 2}, ""},
		{"HIP_VISIBLE_DEVICES=1gpu", nil, "devices_cut"},
		{"ROCM_VISIBLE_DEVICES=1", []int{1, 2, 3}, "variable_misspelt"},
	} {
		v := Visible(devices, HIP, strings.Fields(c.environ))
		if !slices.Equal(v.Indexes, c.want) {
			t.Errorf("%q: %v, want %v", c.environ, v.Indexes, c.want)
		}
		if len(v.Notes) > 1 || len(v.Notes) == 1 && v.Notes[0].Code != c.note || len(v.Notes) == 0 && c.note != "" {
			t.Errorf("%q: notes %+v, want %q", c.environ, v.Notes, c.note)
		}
	}
}
