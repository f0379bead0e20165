package report

import (
	"strings"

	"floodmark/record"
)

// declared lists where the parts of a recipe were read: a paragraph for each file,
// one for the command, and what follows by the software's rules.
func declared(b *strings.Builder, e *record.Estimate, s Style) {
	var places []string
	said := map[string][]string{}
	add := func(place, text string) {
		if _, known := said[place]; !known {
			places = append(places, place)
		}
		said[place] = append(said[place], text)
	}
	for _, d := range e.Declared {
		switch {
		case d.Value == "false": // what is switched off is in the record
		case d.File != nil:
			add("declared in "+*d.File+": ", d.Field+" "+d.Value+" ("+text(d.Key)+")")
		case d.Key != nil:
			add("declared by the command: ", d.Field+" "+d.Value+" ("+*d.Key+")")
		}
	}
	for _, place := range places {
		b.WriteString(paragraph(s, "  ", place+strings.Join(said[place], "; ")))
	}
	for _, d := range e.Declared {
		if d.Rule != nil {
			b.WriteString(paragraph(s, "  ", d.Field+" "+d.Value+" · "+*d.Rule))
		}
	}
	for _, open := range e.Open {
		b.WriteString(paragraph(s, "  ", "not modelled: "+open))
	}
}
