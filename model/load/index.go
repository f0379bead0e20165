package load

import (
	"slices"

	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/safetensors"
	"floodmark/model"
)

// compare holds a configuration against an index whose weight files are not
// there: the names that it lists, and the total that it declares.
func compare(m *model.Model, name string, index *safetensors.Index) {
	m.Warnings = append(m.Warnings, index.Warnings...)
	compareNames(m, name, index)
	if total, whole := index.TotalSize.Value(); whole && total > 0 {
		compareTotal(m, name, total)
	}
}

// compareNames says which tensors only one of the two knows.
func compareNames(m *model.Model, name string, index *safetensors.Index) {
	if len(m.Tensors) == 0 {
		return
	}
	a := &assembly{byName: make(map[string]int32, len(m.Tensors)), respellings: respellings()}
	for i, t := range m.Tensors {
		a.byName[t.Name] = int32(i)
	}
	var strange, lacking []string
	met := make([]bool, len(m.Tensors))
	for _, e := range index.Entries {
		if at, known := a.find(star(e.Name)); known {
			met[at] = true
		} else {
			strange = append(strange, e.Name)
		}
	}
	for i, t := range m.Tensors {
		if !met[i] && t.TiedTo == model.NotTied {
			lacking = append(lacking, t.Name)
		}
	}
	if len(strange) > 0 {
		m.Warnings = append(m.Warnings, warning("tensors_not_described", "%s lists %d tensors of which the configuration says nothing: %s", name, len(strange), several(strange)))
	}
	if len(lacking) > 0 {
		m.Warnings = append(m.Warnings, warning("tensors_not_stored", "%s lacks %d tensors that the configuration describes: %s", name, len(lacking), several(lacking)))
	}
}

// compareTotal holds the declared total against the sum over the
// configuration. The sum counts, with one exception: a total that is the same
// whole number of bytes for every element tells the format of the files, which
// configurations get wrong or leave out.
func compareTotal(m *model.Model, name string, total int64) {
	weights := m.WeightsBytes()
	if sum, exact := weights.IsExact(); exact && sum == total {
		return
	}
	if f, told := told(m, total); told {
		declared := "says nothing of the format"
		if m.Compute != dtype.Unknown {
			declared = "declares " + m.Compute.String()
		}
		store(m, f)
		m.Warnings = append(m.Warnings, warning("format_by_total_size", "%s declares a total_size of %d bytes, just %d for each element; the configuration %s, and %s is taken", name, total, total/elements(m), declared, f))
		return
	}
	if weights.Low() == 0 {
		m.Warnings = append(m.Warnings, warning("total_size_alone", "%s declares a total_size of %d bytes; the configuration does not say how many there are", name, total))
		return
	}
	if total/2 == weights.Low() && total%2 == 0 {
		m.Warnings = append(m.Warnings, warning("total_size_double", "%s declares a total_size of %d bytes, twice what the configuration describes, which counts: its writer counted twice, or the files store elements of twice the size", name, total))
		return
	}
	m.Warnings = append(m.Warnings, warning("total_size_differs", "%s declares a total_size of %d bytes; the configuration describes %d, %+d, which count", name, total, weights.Low(), weights.Low()-total))
}

// elements is how many elements the model stores; 0 where that is not known.
func elements(m *model.Model) int64 {
	var sum int64
	for _, t := range m.Tensors {
		if t.TiedTo != model.NotTied {
			continue
		}
		n, fits := t.Parameters()
		if sum, fits = addFitting(sum, n, fits); !fits {
			return 0
		}
	}
	return sum
}

func addFitting(sum, n int64, fits bool) (int64, bool) {
	if !fits {
		return 0, false
	}
	return bytesize.Add(sum, n)
}

// told is the format that a total tells: that of the configuration where the
// size agrees, else the usual one of that size. It tells nothing of packed
// weights, nor where shapes are not understood.
func told(m *model.Model, total int64) (dtype.Format, bool) {
	count := elements(m)
	if m.Quantised != nil || count == 0 || total%count != 0 {
		return dtype.Unknown, false
	}
	for _, u := range m.Unknown {
		if !u.FormatOnly {
			return dtype.Unknown, false
		}
	}
	switch total / count {
	case 2:
		if m.Compute == dtype.F16 {
			return dtype.F16, true
		}
		return dtype.BF16, true
	case 4:
		// Twice the declared format is more often a writer that counted twice.
		return dtype.F32, m.Compute == dtype.Unknown || m.Compute == dtype.F32
	}
	return dtype.Unknown, false
}

// store gives all tensors a format.
func store(m *model.Model, f dtype.Format) {
	for i := range m.Tensors {
		m.Tensors[i].Stored = f
	}
	if m.Compute == dtype.Unknown {
		m.Compute = f
	}
	m.Unknown = slices.DeleteFunc(m.Unknown, func(u model.Unknown) bool { return u.FormatOnly })
}
