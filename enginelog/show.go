package enginelog

import (
	"fmt"
	"strconv"

	"floodmark/account"
	"floodmark/bytesize"
)

// show prints a figure for a sentence. One number stands for an interval that is
// no wider than the rounding of a number with two decimals, as printed ones are.
// A wider one has two, rounded outwards to a power of ten that is at most a third
// of what separates them. Worked number: 730,144,440 to 773,094,112 bytes, which
// is 696.32 to 737.28 MiB, is "690 to 740 MiB", as it is known to some 40 MiB.
func show(f account.Figure) string {
	high, known := f.High()
	if !known {
		return "an unknown number of bytes"
	}
	low, unit := f.Low(), bytesize.Suggest(high)
	switch {
	case unit == bytesize.B && low == high:
		return bytesize.Number(low, unit) + " B"
	case unit == bytesize.B:
		return bytesize.Number(low, unit) + " to " + bytesize.Number(high, unit) + " B"
	case high-low <= unit.Bytes()/100+1:
		return bytesize.Fixed(low+(high-low)/2, unit, 2) + " " + unit.String()
	}
	from, to := outwards(low, high, unit)
	return from + " to " + to + " " + unit.String()
}

// outwards prints both ends of an interval as coarsely as it is wide.
func outwards(low, high int64, unit bytesize.Unit) (string, string) {
	const most = 1 << 53 // no unit leaves that many hundredths
	from, a := scale(uint64(max(low, 0)), 100, uint64(unit.Bytes()), false)
	to, b := scale(uint64(max(high, 0)), 100, uint64(unit.Bytes()), true)
	if !a || !b || to > most {
		return bytesize.Fixed(low, unit, 2), bytesize.Fixed(high, unit, 2)
	}
	step, decimals := int64(1), 2
	for step*10*3 <= to-from {
		step, decimals = step*10, max(decimals-1, 0)
	}
	return hundredths(from/step*step, decimals), hundredths(bytesize.CeilDiv(to, step)*step, decimals)
}

// hundredths prints a count of hundredths with at most two decimals.
func hundredths(n int64, decimals int) string {
	text := fmt.Sprintf("%d.%02d", n/100, n%100)
	switch decimals {
	case 0:
		return text[:len(text)-len(".00")]
	case 1:
		return text[:len(text)-len("0")]
	}
	return text
}

// ordinary joins the parts of a list as a sentence does.
func ordinary(list []string, conjunction string) string {
	switch n := len(list); n {
	case 0:
		return ""
	case 1:
		return list[0]
	default:
		text := list[0]
		for _, part := range list[1 : n-1] {
			text += ", " + part
		}
		return text + " " + conjunction + " " + list[n-1]
	}
}

// asPrinted is a size as the text has it, its space given back: "452.50 KiB".
func asPrinted(number, unit string) string { return number + " " + unit }

// process names a process for a sentence.
func process(pid int64) string { return "process " + strconv.FormatInt(pid, 10) }
