package floodmark

import (
	"floodmark/account"
	"floodmark/device"
	"floodmark/record"
)

// GPUs is the catalogue of cards as a document, or the one card of that name.
// Where the name left a choice, a warning says which card was taken.
func GPUs(name string, tool record.Tool) (*record.GPUs, error) {
	cards, err := device.Catalogue()
	if err != nil {
		return nil, err
	}
	var notes []account.Warning
	if name != "" {
		card, err := device.Find(name)
		if err != nil {
			return nil, err
		}
		cards = []device.Card{card}
		if card.Note != "" {
			notes = append(notes, account.Warning{Code: "card_chosen", Text: card.Note})
		}
	}
	document := &record.GPUs{Envelope: record.NewEnvelope(record.KindGPUs, tool, notes)}
	for _, c := range cards {
		document.Cards = append(document.Cards, cardRecord(c))
	}
	return document, nil
}

// cardRecord gives a card's totals as programs see them on any platform. A low
// that no rule bounds is null.
func cardRecord(c device.Card) record.Card {
	r := record.Card{ID: c.ID, Name: c.Name, ComputeCapability: record.Text(c.ComputeCapability), Sources: c.Sources}
	if n, ok := c.LabelBytes.IsExact(); ok {
		r.LabelBytes = &n
	}
	reported := c.Reported(device.UnknownPlatform)
	high, known := reported.High()
	if !known {
		return r
	}
	r.ReportedHighBytes, r.HighOrigin = &high, record.Text(string(account.Observed))
	low, rule, bounded := reported.Low(), "", true
	if reported.Origin == account.Fitted {
		rule, bounded = c.LowRule()
		r.LowRule = record.Text(rule)
	}
	if bounded {
		r.ReportedLowBytes, r.LowOrigin = &low, record.Text(string(reported.Origin))
	}
	return r
}
