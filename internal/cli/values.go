package cli

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"floodmark/bytesize"
)

// textValue is the value of a flag that is a text and never empty.
type textValue struct {
	into  *string
	check func(string) error // nil: any text
}

func (v *textValue) String() string {
	if v.into == nil {
		return ""
	}
	return *v.into
}

func (v *textValue) Type() string { return "text" }

func (v *textValue) Set(text string) error {
	if text == "" {
		return &usageError{err: errors.New("its value is empty"), hint: hintEmpty}
	}
	if v.check != nil {
		if err := v.check(text); err != nil {
			return err
		}
	}
	*v.into = text
	return nil
}

// textFlag adds a flag that is a text. Its default is what the variable holds.
func textFlag(f *pflag.FlagSet, into *string, name, usage string) {
	f.Var(&textValue{into: into}, name, usage)
}

// textsValue is the values of a flag that may be given several times, none of
// them empty.
type textsValue struct{ into *[]string }

func (v *textsValue) String() string { return "" }

func (v *textsValue) Type() string { return "text" }

func (v *textsValue) Set(text string) error {
	var one string
	if err := (&textValue{into: &one}).Set(text); err != nil {
		return err
	}
	*v.into = append(*v.into, one)
	return nil
}

// textsFlag adds a flag that may be given several times.
func textsFlag(f *pflag.FlagSet, into *[]string, name, usage string) {
	f.Var(&textsValue{into: into}, name, usage)
}

// newFileFlag adds a flag that names one file to be made.
func newFileFlag(f *pflag.FlagSet, into *string, name, short, usage string) {
	f.VarP(&textValue{into: into, check: func(text string) error {
		switch {
		case text == "-":
			return &usageError{err: errors.New(`"-" is no name for a file that is made`), hint: "standard output has the record with --json"}
		case *into != "":
			return fmt.Errorf("is given twice, as %q and as %q", *into, text)
		}
		return nil
	}}, name, short, usage)
}

// numberValue is the value of a flag that is a whole number.
type numberValue struct{ into *int }

func (v *numberValue) String() string {
	if v.into == nil {
		return ""
	}
	return strconv.Itoa(*v.into)
}

func (v *numberValue) Type() string { return "number" }

func (v *numberValue) Set(text string) error {
	n, err := whole(text)
	if err == nil && n > math.MaxInt32 {
		err = tooLarge(text)
	}
	if err != nil {
		return err
	}
	*v.into = int(n)
	return nil
}

// numberFlag adds a flag that is a whole number.
func numberFlag(f *pflag.FlagSet, into *int, name, usage string) {
	f.Var(&numberValue{into}, name, usage)
}

// reNumber is how every flag has its numbers: 8192, 4.5, 7e9, 8Ki.
var reNumber = regexp.MustCompile(`^([+-]?)([0-9]+)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?(Ki|Mi)?$`)

// maxDigits is more digits than any number needs; big.Rat takes time and memory
// for each.
const maxDigits = 60

// number reads a number that is not negative, exactly.
func number(text string) (*big.Rat, error) {
	m := reNumber.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return nil, &usageError{err: fmt.Errorf("%.80q is not a number", text), hint: "write 8192, 8Ki or 7e9"}
	}
	digits := strings.Trim(strings.TrimLeft(m[2], "0")+"."+strings.TrimRight(m[3], "0"), ".")
	exponent, err := strconv.Atoi("0" + strings.TrimLeft(m[4], "+-"))
	small := strings.HasPrefix(m[4], "-")
	switch {
	case digits == "":
		return new(big.Rat), nil
	case m[1] == "-":
		return nil, fmt.Errorf("%.80q is negative", text)
	case !small && (err != nil || exponent > maxDigits) || len(strings.TrimLeft(m[2], "0")) > maxDigits:
		return nil, tooLarge(text)
	case small && (err != nil || exponent > maxDigits) || len(digits) > 2*maxDigits:
		return nil, fmt.Errorf("%.80q has more digits than a number here may have", text)
	}
	r, ok := new(big.Rat).SetString(strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(text), "Ki"), "Mi"))
	if !ok {
		return nil, fmt.Errorf("%.80q is not a number", text)
	}
	switch m[5] {
	case "Ki":
		r.Mul(r, new(big.Rat).SetInt64(1<<10))
	case "Mi":
		r.Mul(r, new(big.Rat).SetInt64(1<<20))
	}
	return r, nil
}

func tooLarge(text string) error { return fmt.Errorf("%.80q is too large", text) }

// whole reads a whole number that is not negative and fits in 63 bits.
func whole(text string) (int64, error) {
	r, err := number(text)
	switch {
	case err != nil:
		return 0, err
	case !r.IsInt():
		return 0, &usageError{err: fmt.Errorf("%.80q is not a whole number", text), hint: "write 8192, 8Ki or 7e9"}
	case !r.Num().IsInt64():
		return 0, tooLarge(text)
	}
	return r.Num().Int64(), nil
}

// count is [whole] for a flag that is read after the others.
func count(flag, text string) (int64, error) {
	n, err := whole(text)
	return n, ofFlag(flag, err)
}

// gib reads a number of GiB as bytes, rounded down to a whole byte.
func gib(flag, text string) (int64, error) {
	r, err := number(text)
	if err != nil {
		return 0, ofFlag(flag, err)
	}
	r.Mul(r, new(big.Rat).SetInt64(bytesize.GiB.Bytes()))
	n := new(big.Int).Quo(r.Num(), r.Denom())
	if !n.IsInt64() {
		return 0, ofFlag(flag, tooLarge(text))
	}
	return n.Int64(), nil
}

// ofFlag is an error about the value of a flag; nil for nil.
func ofFlag(flag string, err error) error {
	if err == nil {
		return nil
	}
	u := &usageError{err: fmt.Errorf("%s: %w", flag, err)}
	var inner *usageError
	if errors.As(err, &inner) {
		u.hint = inner.hint
	}
	return u
}
