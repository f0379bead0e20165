package report

import (
	"fmt"
	"strings"

	"floodmark/bytesize"
)

// count is a number of things: "1 event", "1,031 blocks".
func count(n int, thing string) string { return plural(int64(n), thing) }

func plural(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return bytesize.Group(n) + " " + thing
}

// ranges lists numbers in order with neighbours together: "0, 2 to 7".
func ranges(prefix string, list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		end := i
		for end+1 < len(list) && list[end+1] == list[end]+1 {
			end++
		}
		switch {
		case end > i+1:
			parts = append(parts, fmt.Sprintf("%s%d to %s%d", prefix, list[i], prefix, list[end]))
			i = end + 1
		default:
			parts = append(parts, fmt.Sprintf("%s%d", prefix, list[i]))
			i++
		}
	}
	return strings.Join(parts, ", ")
}

// nothingRecorded names the devices of which a recording says nothing, in one
// line: eight cards are seen, and one is used.
func nothingRecorded(b *strings.Builder, devices []int, s Style) {
	if len(devices) > 0 {
		b.WriteString("\n" + paragraph(s, "  ", ranges("cuda:", devices)+": nothing recorded"))
	}
}
