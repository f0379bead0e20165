package floodmark

import (
	"strings"
	"testing"

	"floodmark/internal/checklist"
)

// One layout of 16 bytes a parameter, of 70.6 billion; others make other totals.
func TestPrepareTraining(t *testing.T) {
	checklist.Covers(t, 201, 202, 209)
	for layout, want := range map[string]int64{
		"bf16-params-bf16-grads-fp32-master-fp32-moments": 1_129_600_000_000,
		"bf16-params-fp32-grads-fp32-master-fp32-moments": 1_270_800_000_000,
		"fp32-params-autocast":                            1_129_600_000_000,
		"bf16-params":                                     564_800_000_000,
		"bf16-params-no-moments":                          282_400_000_000,
	} {
		p, err := PrepareTraining(70_600_000_000, layout, 0, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if p.TotalBytes != want {
			t.Errorf("%s is %d bytes, want %d", layout, p.TotalBytes, want)
		}
	}
	checklist.Covers(t, 208)
	for _, name := range []string{"mixed", "mixed-precision", "fp16", "bf16-grads", "8bit-params", "bf16-params-8bit-grads"} {
		_, err := PrepareTraining(7, name, 0, nil, "")
		if err == nil {
			t.Errorf("%q is taken for a layout", name)
		} else if name == "mixed" && !strings.Contains(err.Error(), "declare parameters, gradients, master_copy, first_moment and second_moment") {
			t.Errorf("%q does not ask for each format: %v", name, err)
		}
	}
}
