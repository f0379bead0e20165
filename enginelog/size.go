package enginelog

import (
	"math"
	"math/bits"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
)

// printed is the bytes that a printed size can stand for.
//
// PyTorch's format_size prints two decimals, in bytes up to 1024, in KiB up to
// 2²⁰ bytes, in MiB up to 2³⁰, in GiB above (c10/cuda/CUDACachingAllocator.cpp);
// so a number of decimals gives an interval, and its unit bounds it further.
// The allocator for MPS did the same under the names KB, MB and GB until it
// changed the names: 18.13 GB is 1.7 × 10.67 GiB, its default limit on a Mac
// of 16 GiB. Worked number: "14.62 MiB" is 15,324,939 to 15,335,424 bytes.
func printed(number, unit string, p account.Provenance) account.Figure {
	f := rounded(number, unit, p)
	high, known := f.High()
	if !known || unit == "bytes" {
		return f
	}
	low, u := f.Low(), binary(unit)
	if clipped := max(low, u+1); clipped <= high {
		low = clipped
	}
	if clipped := min(high, u<<10); u < 1<<30 && clipped >= low {
		high = clipped
	}
	return account.Between(low, high, p)
}

// rounded is the bytes that a number with decimals can stand for, whoever
// printed it.
func rounded(number, unit string, p account.Provenance) account.Figure {
	scaled, decimals, ok := digits(number)
	if !ok {
		return account.Unknown(bytesize.ErrOverflow.Error(), p)
	}
	if unit == "bytes" {
		if decimals != 1 || scaled > math.MaxInt64 {
			return account.Unknown(bytesize.ErrOverflow.Error(), p)
		}
		return account.Exact(int64(scaled), p)
	}
	u := binary(unit)
	// The number stands for [2n−1, 2n+1] / 2 units of its last decimal.
	low, lowFits := scale(max(2*scaled, 1)-1, u, 2*decimals, true)
	high, highFits := scale(2*scaled+1, u, 2*decimals, false)
	if !lowFits || !highFits {
		return account.Unknown(bytesize.ErrOverflow.Error(), p)
	}
	return account.Between(low, high, p)
}

// digits is a decimal number as an integer and the power of ten it is scaled
// by; false when it does not fit.
func digits(number string) (scaled, power uint64, ok bool) {
	power = 1
	whole, fraction, _ := strings.Cut(number, ".")
	for _, d := range whole + fraction {
		if scaled > (math.MaxUint64/2-20)/10 {
			return 0, 1, false
		}
		scaled = scaled*10 + uint64(d-'0')
	}
	for range fraction {
		power *= 10
	}
	return scaled, power, true
}

// scale is n × unit / divisor, rounded up or down.
func scale(n uint64, unit int64, divisor uint64, up bool) (int64, bool) {
	hi, lo := bits.Mul64(n, uint64(unit))
	if hi >= divisor {
		return 0, false
	}
	q, rest := bits.Div64(hi, lo, divisor)
	if up && rest > 0 {
		q++
	}
	return int64(q), q <= math.MaxInt64
}

// binary is the bytes of a unit; here KB, MB and GB are powers of two.
func binary(unit string) int64 {
	switch unit[0] {
	case 'K':
		return 1 << 10
	case 'M':
		return 1 << 20
	}
	return 1 << 30
}

// binaryUnderOldName reports a printed size whose unit is called as if it were
// decimal.
func binaryUnderOldName(printed string) bool {
	return strings.HasSuffix(printed, "B") && !strings.HasSuffix(printed, "iB")
}
