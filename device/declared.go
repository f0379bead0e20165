package device

import (
	"slices"
	"strings"

	"floodmark/account"
)

// Declared is a card of which only the total is known that it reports to a
// program, as somebody read it: cards that the catalogue lacks.
func Declared(total account.Figure) Card {
	return Card{ID: "declared", Name: "the declared card",
		LabelBytes: account.Unknown("no label was declared", account.Provenance{Scope: account.Device})}.WithTotal(total)
}

// WithTotal is the card with one total in place of all that was reported of it:
// the one that this card at hand reports.
func (c Card) WithTotal(total account.Figure) Card {
	p := account.Provenance{Origin: account.Assumed, Scope: account.Device, Counter: "declared total"}
	c.Readings = []Reading{{Kind: RuntimeTotal, Bytes: total.As(p)}}
	return c
}

// partition is the card's slice of a profile ("3g.40gb"), as a card of its own.
// Slices were read from the driver, so that what a program sees of one is
// bounded as it is for a card of which only the driver's total is known.
func (c Card) partition(profile string) (Card, error) {
	slice := c
	slice.ID, slice.Readings, slice.MIG = c.ID+":"+profile, nil, nil
	slice.Name = strings.TrimSpace(c.Name + " " + profile)
	slice.LabelBytes = account.Unknown("a slice has no label", account.Provenance{Scope: account.Device})
	var profiles []string
	found := false
	for _, s := range c.MIG {
		if name := c.ID + ":" + s.Profile; !strings.Contains(s.Profile, " ") && !slices.Contains(profiles, name) {
			profiles = append(profiles, name) // several readings of one profile, and what no driver names, aside
		}
		if strings.EqualFold(s.Profile, profile) {
			found = true
			slice.Readings = append(slice.Readings, Reading{Kind: DriverTotal, Bytes: s.Bytes})
		}
	}
	switch {
	case found:
		return slice, nil
	case len(profiles) == 0:
		return Card{}, &NameError{Name: slice.ID, Candidates: []string{c.ID}}
	}
	return Card{}, &NameError{Name: slice.ID, Candidates: profiles}
}
