package floodmark

import (
	"floodmark/device"
	"floodmark/record"
)

// GPUs is the catalogue of cards as a document, or the one card of that name.
func GPUs(name string, tool record.Tool) (*record.GPUs, error) {
	cards, err := device.Catalogue()
	if err != nil {
		return nil, err
	}
	if name != "" {
		card, err := device.Find(name)
		if err != nil {
			return nil, err
		}
		cards = []device.Card{card}
	}
	document := &record.GPUs{Envelope: record.NewEnvelope(record.KindGPUs, tool, nil)}
	for _, c := range cards {
		document.Cards = append(document.Cards, cardRecord(c))
	}
	return document, nil
}

// cardRecord gives a card's totals as programs see them on any platform.
func cardRecord(c device.Card) record.Card {
	r := record.Card{ID: c.ID, Name: c.Name, ComputeCapability: record.Text(c.ComputeCapability), Sources: c.Sources}
	if n, ok := c.LabelBytes.IsExact(); ok {
		r.LabelBytes = &n
	}
	reported := c.Reported(device.UnknownPlatform)
	if high, known := reported.High(); known {
		low := reported.Low()
		r.ReportedLowBytes, r.ReportedHighBytes = &low, &high
	}
	return r
}
