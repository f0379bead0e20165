package device

import (
	"fmt"
	"math/bits"

	"floodmark/account"
	"floodmark/bytesize"
)

// Reported is the capacity that a program sees on a platform: the interval
// between the lowest and the highest total that programs reported, never the
// label. The rules, in order:
//
//   - Linux: every runtime total that was not read on Windows or WSL.
//   - Windows, WSL: the runtime totals that were read there, and the driver's
//     totals, which WDDM hands on whole: all runtime totals of the catalogue
//     from there are the driver's, but for a card with ECC off and one whose
//     memory is split by a setting. Without one from there, the interval begins
//     at the lowest total of an unnamed platform.
//   - Without a runtime total of the platform, the high is the driver's total
//     and the low is what would be left if this card's driver kept the largest
//     share that any card of this vendor is seen to lose in this catalogue. A
//     vendor without such a pair gives low 0. The figure's origin is then
//     fitted, which is said of its low alone, by [Card.LowRule]: every high was
//     reported.
//   - A card that was read on Linux only has that low on Windows, and no high.
//   - Unknown platform: from the lowest to the highest of both.
//   - A card of which nobody reported anything is unknown.
//
// A reading whose rounding reaches above the driver's total is cut there; one
// that lies wholly above it stays, since it shows another state of the card:
// ECC off, or a driver older than R510, whose total left out the reserve.
func (c Card) Reported(platform Platform) account.Figure {
	switch platform {
	case Linux:
		return c.onLinux()
	case Windows, WSL:
		return c.onWindows()
	}
	linux, windows := c.onLinux(), c.onWindows()
	if !linux.Known() {
		return windows
	}
	if !windows.Known() {
		return linux
	}
	return span([]account.Figure{linux, windows}, "")
}

func (c Card) onLinux() account.Figure {
	if runtime := c.of(RuntimeTotal, maybeOnLinux); len(runtime) > 0 {
		return c.cut(span(runtime, ""))
	}
	return c.fromDriver()
}

func (c Card) onWindows() account.Figure {
	runtime := c.of(RuntimeTotal, onWindows)
	if len(runtime) == 0 {
		runtime = c.of(RuntimeTotal, maybeOnWindows)
	}
	if len(runtime) > 0 {
		return c.cut(span(append(runtime, c.of(DriverTotal, everywhere)...), ""))
	}
	total := c.fromDriver()
	if linux := span(c.of(RuntimeTotal, maybeOnLinux), ""); !total.Known() && linux.Known() {
		return account.AtLeast(linux.Low(), "read on Linux only, where the driver keeps part of its total back", linux.Provenance)
	}
	return total
}

// cut lowers a high that only rounding takes above the driver's total.
func (c Card) cut(runtime account.Figure) account.Figure {
	driver := c.DriverTotal()
	top := high(driver)
	if !driver.Known() || runtime.Low() > top || high(runtime) <= top {
		return runtime
	}
	for _, r := range c.of(RuntimeTotal, everywhere) {
		if r.Low() > top {
			return runtime
		}
	}
	return account.Between(runtime.Low(), top, runtime.Provenance)
}

// fromDriver bounds what a program sees where only the driver's total is
// known, or only a total from Windows, which is the same.
func (c Card) fromDriver() account.Figure {
	total := span(append(c.of(DriverTotal, everywhere), c.of(RuntimeTotal, onWindows)...),
		"nobody has reported what this card shows to a program")
	if !total.Known() {
		return total
	}
	return account.Between(c.reserve.left(total.Low()), high(total), account.Provenance{
		Origin: account.Fitted, Scope: account.Device,
		Counter: total.Counter,
		Source:  total.Source + "; " + c.reserve.String(),
	})
}

// reserve is the largest share of the driver's total that programs were seen
// not to get: seen of total bytes were left on one card.
type reserve struct {
	seen, total  int64
	card, vendor string
}

// left is the same share of another total, rounded down; 0 without a share.
func (r reserve) left(total int64) int64 {
	if r.total <= 0 || r.seen <= 0 || r.seen > r.total || total < 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(total), uint64(r.seen))
	left, _ := bits.Div64(hi, lo, uint64(r.total))
	return int64(left)
}

// String states the rule.
func (r reserve) String() string {
	if r.total == 0 {
		return fmt.Sprintf("nothing bounds the low: no %s card has both a driver's and a program's total", r.vendor)
	}
	return fmt.Sprintf("the driver's total × %s / %s, the largest loss that any %s card of the catalogue shows (%s)",
		bytesize.Group(r.seen), bytesize.Group(r.total), r.vendor, r.card)
}

// LowRule is the rule by which [Card.Reported] finds a low that no card
// reported, one whose origin is fitted. The second result is false where no
// rule bounds it, so that the low is 0 for want of a better one.
func (c Card) LowRule() (rule string, bounded bool) { return c.reserve.String(), c.reserve.total > 0 }

// largestReserve searches the cards of a vendor that have both totals. Unified
// memory is left out: there the split is a setting.
func largestReserve(cards []Card, vendor string) reserve {
	worst := reserve{vendor: vendor}
	for _, c := range cards {
		driver, runtime := c.DriverTotal(), span(c.of(RuntimeTotal, maybeOnLinux), "")
		if c.Vendor != vendor || c.Unified() || !driver.Known() || !runtime.Known() {
			continue
		}
		r := reserve{seen: runtime.Low(), total: high(driver), card: c.ID, vendor: vendor}
		if worst.total == 0 || float64(r.seen)/float64(r.total) < float64(worst.seen)/float64(worst.total) {
			worst = r
		}
	}
	return worst
}
