package report

import (
	"cmp"
	"slices"
	"strings"

	"floodmark/bytesize"
	"floodmark/internal/sorting"
	"floodmark/record"
)

// shownFailures is how many failures a terminal shows; the record has more.
const shownFailures = 3

// failures tell of each request that failed why it did, and what was alive then.
func failures(b *strings.Builder, list []record.SnapshotFailure, s Style) {
	for _, f := range list[:min(shownFailures, len(list))] {
		title := "out of memory at event " + bytesize.Group(f.Event)
		if f.Phase != nil {
			title += ", in " + strings.ReplaceAll(*f.Phase, "_", " ")
		}
		b.WriteString(paragraph(s, "  ", s.bold(title)+" ("+strings.ReplaceAll(f.Class, "_", " ")+"): "+sentence(f.BecauseParts, f.Because, s)))
		b.WriteString(paragraph(s, "  ", "  asked for by: "+cmp.Or(f.Where, "no stack was recorded")))
		if alive := alive(f.Composition, s); alive != "" {
			b.WriteString(paragraph(s, "  ", "  allocated then: "+alive))
		}
	}
	more(b, len(list)-shownFailures, s)
}

// alive is a composition in one line, the largest first.
func alive(shares []record.Share, s Style) string {
	known := slices.DeleteFunc(slices.Clone(shares), func(x record.Share) bool { return x.Bytes == nil || *x.Bytes <= 0 })
	sorting.By(known, func(i, j int) int { return cmp.Compare(*known[j].Bytes, *known[i].Bytes) })
	var parts []string
	for _, share := range known {
		parts = append(parts, s.amount(quantity{exact: share.Bytes})+" "+strings.ReplaceAll(share.Category, "_", " "))
	}
	return strings.Join(parts, " · ")
}
