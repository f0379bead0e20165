package bytesize

import (
	"fmt"
	"math/big"
	"strings"
)

// ParsePrinted reads a byte count as a person copies it from where it was
// printed: with a fraction it is any count that rounds to those digits, so that
// "79.2 GiB" lies within half a tenth of it; without one it is exact. low and
// high are whole bytes.
func ParsePrinted(text string) (low, high int64, err error) {
	middle, err := Parse(text)
	if err != nil {
		return 0, 0, err
	}
	number := strings.TrimRight(strings.TrimSpace(text), " abBegGikKmMptPT")
	_, decimals, fraction := strings.Cut(number, ".")
	unit, unitErr := ParseUnit(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), number)))
	if !fraction || unitErr != nil {
		return middle, middle, nil
	}
	step := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(decimals))), nil)
	half := new(big.Int).Div(big.NewInt(unit.Bytes()), step.Mul(step, big.NewInt(2)))
	high, fits := Add(middle, half.Int64())
	if !fits {
		return 0, 0, fmt.Errorf("%q: %w", text, ErrOverflow)
	}
	return middle - half.Int64(), high, nil
}
