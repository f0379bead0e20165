package bytesize

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
)

// Unit is a named number of bytes.
type Unit uint8

// Decimal units (SI) and binary units (IEC 80000-13). One GB is 1,000,000,000
// bytes; one GiB is 1,073,741,824 bytes.
const (
	B Unit = iota
	KB
	MB
	GB
	TB
	PB
	KiB
	MiB
	GiB
	TiB
	PiB
	unitCount
)

// Bytes is how many bytes one unit holds.
func (u Unit) Bytes() int64 {
	if u >= KiB {
		return 1 << (10 * uint(u-KiB+1))
	}
	n := int64(1)
	for range u {
		n *= 1000
	}
	return n
}

// String is the unit's symbol, as in "GiB".
func (u Unit) String() string {
	return strings.Fields("B kB MB GB TB PB KiB MiB GiB TiB PiB")[u]
}

// ErrOverflow says that a count does not fit in 63 bits.
var ErrOverflow = errors.New("byte count does not fit in 63 bits")

// Mul multiplies counts. Its second result is false when the product does not
// fit in 63 bits or a factor is negative; the first is then meaningless.
// Worked number: Mul(32, 8, 128, 8192, 2, 2) is 1,073,741,824.
func Mul(factors ...int64) (int64, bool) {
	product := uint64(1)
	fits := true
	for _, f := range factors {
		if f < 0 {
			return 0, false
		}
		hi, lo := bits.Mul64(product, uint64(f))
		if f == 0 {
			return 0, true
		}
		if hi != 0 || lo > math.MaxInt64 {
			fits = false
		}
		product = lo
	}
	return int64(product), fits
}

// Add adds signed counts; its second result is false on overflow.
func Add(terms ...int64) (int64, bool) {
	var sum int64
	for _, t := range terms {
		s := sum + t
		if (t > 0 && s < sum) || (t < 0 && s > sum) {
			return 0, false
		}
		sum = s
	}
	return sum, true
}

// CeilDiv is ⌈a / b⌉ for a ≥ 0 and b > 0.
func CeilDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 {
		q++
	}
	return q
}

// ParseUnit finds the unit with that symbol, whatever its case: "gib" is GiB,
// "gb" is GB.
func ParseUnit(symbol string) (Unit, error) {
	for u := range unitCount {
		if strings.EqualFold(u.String(), symbol) {
			return u, nil
		}
	}
	return 0, fmt.Errorf("%q is not a byte unit (use %s)", symbol, "B, kB, MB, GB, TB, KiB, MiB, GiB or TiB")
}

// Parse reads a byte count such as "80 GiB", "60.33GiB" or "1024". A fraction
// is kept exactly and rounded down to a whole byte. "80G" is refused: it does
// not say whether 80·10⁹ or 80·2³⁰ is meant.
func Parse(text string) (int64, error) {
	trimmed := strings.TrimSpace(text)
	end := 0
	for end < len(trimmed) && strings.IndexByte("0123456789.+-_", trimmed[end]) >= 0 {
		end++
	}
	number, symbol := trimmed[:end], strings.TrimSpace(trimmed[end:])
	if number == "" {
		return 0, fmt.Errorf("%q is not a byte count: expected a number and a unit, as in 80GiB", text)
	}
	unit := B
	if symbol != "" {
		if bare(symbol) {
			return 0, fmt.Errorf("%q does not say which unit is meant: write %s%sB (10ⁿ bytes) or %s%siB (2ⁿ bytes)",
				text, number, symbol, number, strings.ToUpper(symbol))
		}
		u, err := ParseUnit(symbol)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", text, err)
		}
		unit = u
	}
	return scale(text, number, unit)
}

// bare reports a prefix without "B" or "iB".
func bare(symbol string) bool {
	return len(symbol) == 1 && strings.ContainsAny(symbol, "kKmMgGtTpP")
}

func scale(text, number string, unit Unit) (int64, error) {
	// A long or exponent-laden number would make big.Rat take time and memory
	// that no byte count needs.
	if len(number) > 40 {
		return 0, fmt.Errorf("%q is not a byte count: the number is too long", text)
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok || strings.ContainsRune(number, '_') {
		return 0, fmt.Errorf("%q is not a byte count: %q is not a number", text, number)
	}
	r.Mul(r, new(big.Rat).SetInt64(unit.Bytes()))
	whole := new(big.Int).Quo(r.Num(), r.Denom())
	if !whole.IsInt64() {
		return 0, fmt.Errorf("%q: %w", text, ErrOverflow)
	}
	return whole.Int64(), nil
}

// Format prints a count in one unit: exactly when four decimals suffice, else
// rounded half away from zero to two. Worked numbers: 14,000,000,000 is
// "14 GB" and "13.04 GiB"; 1,129,600,000,000 is "1.1296 TB".
func Format(bytes int64, unit Unit) string {
	return Number(bytes, unit) + " " + unit.String()
}

// Number is Format without the unit.
func Number(bytes int64, unit Unit) string {
	r := big.NewRat(bytes, unit.Bytes())
	if exact := r.FloatString(4); new(big.Rat).Sub(rat(exact), r).Sign() == 0 {
		if strings.ContainsRune(exact, '.') {
			exact = strings.TrimRight(strings.TrimRight(exact, "0"), ".")
		}
		return exact
	}
	return r.FloatString(2)
}

// Fixed prints a count in one unit with that many decimals and without the
// unit: the form for a column whose heading names the unit.
func Fixed(bytes int64, unit Unit, decimals int) string {
	text := big.NewRat(bytes, unit.Bytes()).FloatString(decimals)
	if strings.Trim(text, "-0.") == "" {
		return strings.TrimPrefix(text, "-") // what rounds to nothing has no sign
	}
	return text
}

func rat(decimal string) *big.Rat {
	r, _ := new(big.Rat).SetString(decimal)
	return r
}

// Suggest is the largest binary unit in which the count is at least one.
func Suggest(bytes int64) Unit {
	if bytes < 0 {
		bytes = -bytes
	}
	best := B
	for u := KiB; u <= TiB; u++ {
		if bytes >= u.Bytes() {
			best = u
		}
	}
	return best
}

// Group prints an integer with thousands separated by commas:
// 14,000,000,000.
func Group(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}
