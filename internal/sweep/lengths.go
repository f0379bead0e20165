package sweep

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"floodmark/internal/sorting"
	"floodmark/internal/source"
)

// Lengths reads a list of lengths, one number a line, such as the tokens of each
// sample after the template and truncation, and gives those worth running, the
// worst first: the largest, then what 99, 90 and 50 of 100 samples do not exceed.
// Empty lines and lines that begin with # are left out.
func Lengths(name string, r io.Reader) (values []int64, samples int, err error) {
	var all []int64
	lines := bufio.NewScanner(r)
	line := 0
	for lines.Scan() {
		line++
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return nil, 0, source.InField(name, "line "+strconv.Itoa(line), "is %.40q, expected a length of at least 1", text).WithHint("one length a line, nothing else")
		}
		all = append(all, n)
	}
	if err := lines.Err(); err != nil {
		return nil, 0, source.OfFile(name, err)
	}
	if len(all) == 0 {
		return nil, 0, source.OfFile(name, errors.New("holds no length"))
	}
	sorting.By(all, func(i, j int) int { return cmp.Compare(all[i], all[j]) })
	for _, of100 := range []int{100, 99, 90, 50} {
		v := all[quantile(len(all), of100)]
		if !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values, len(all), nil
}

// quantile is the index of the smallest of n sorted samples that at least that
// many of a hundred do not exceed: ⌈n·q/100⌉ counted from 1. Of 200 samples 99
// of a hundred lie at or below the 198th.
func quantile(n, of100 int) int {
	rank := n / 100 * of100
	if rest := n % 100 * of100; rest > 0 {
		rank += (rest + 99) / 100
	}
	return max(rank, 1) - 1
}
