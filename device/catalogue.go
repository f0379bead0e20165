package device

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/internal/packed"
)

//go:embed catalogue.tsv.gz
var catalogue []byte

// Catalogue is every card, in the order of the file. The slice is the
// caller's own.
func Catalogue() ([]Card, error) {
	text, err := packed.Text(catalogue)
	if err != nil {
		return nil, err
	}
	cards, err := parse(text)
	if err != nil {
		return nil, err
	}
	reserves := map[string]reserve{}
	for i, c := range cards {
		if _, done := reserves[c.Vendor]; !done {
			reserves[c.Vendor] = largestReserve(cards, c.Vendor)
		}
		cards[i].reserve = reserves[c.Vendor]
	}
	return cards, nil
}

// parse reads the lines that scripts/reduce_gpu_records.py writes; their
// fields are listed there. It is tab-separated because JSON of this size takes
// longer to read than a command should need to start.
func parse(text string) ([]Card, error) {
	var cards []Card
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if err := add(&cards, fields); err != nil {
			return nil, fmt.Errorf("catalogue of cards, line %d: %w", number, err)
		}
	}
	return cards, nil
}

// add takes one line: a new card, or a reading or slice of the last one.
func add(cards *[]Card, f []string) error {
	if f[0] == "card" && len(f) == 11 {
		c, err := card(f)
		*cards = append(*cards, c)
		return err
	}
	if len(*cards) == 0 {
		return fmt.Errorf("%q comes before the first card", f[0])
	}
	c := &(*cards)[len(*cards)-1]
	switch {
	case f[0] == "reading" && len(f) == 7:
		p := account.Provenance{Origin: account.Observed, Scope: account.Device, Counter: f[5], Source: f[6]}
		bytes, err := between(f[3], f[4], p)
		c.Readings = append(c.Readings, Reading{Kind: Kind(f[1]), Platform: f[2], Bytes: bytes})
		c.addSource(p.Source)
		return err
	case f[0] == "slice" && len(f) == 5:
		p := account.Provenance{Origin: account.Observed, Scope: account.Device, Counter: "MIG slice", Source: f[4]}
		bytes, err := between(f[2], f[3], p)
		c.MIG = append(c.MIG, Slice{Profile: f[1], Bytes: bytes})
		c.addSource(p.Source)
		return err
	}
	return fmt.Errorf("%q with %d fields", f[0], len(f))
}

func card(f []string) (Card, error) {
	c := Card{
		ID: f[1], Vendor: f[2], Name: f[3], Arch: f[6], ComputeCapability: f[7], FormFactor: f[9], Missing: f[10],
		LabelBytes: account.Unknown("no label was found", account.Provenance{Scope: account.Device}),
	}
	c.addSource(f[5])
	c.addSource(f[8])
	if f[4] == "" {
		return c, nil
	}
	gb, err := strconv.ParseInt(f[4], 10, 64)
	bytes, fits := bytesize.Mul(gb, bytesize.GB.Bytes())
	c.LabelBytes = account.Checked(bytes, fits,
		account.Provenance{Origin: account.Assumed, Scope: account.Device, Counter: "label", Source: f[5]})
	return c, err
}

func between(low, high string, p account.Provenance) (account.Figure, error) {
	if low == "" || high == "" {
		return account.Unknown("the source gives no number", p), nil
	}
	l, err := strconv.ParseInt(low, 10, 64)
	if err != nil {
		return account.Figure{}, err
	}
	h, err := strconv.ParseInt(high, 10, 64)
	return account.Between(l, h, p), err
}
