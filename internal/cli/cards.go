package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"floodmark"
	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/device"
	"floodmark/record"
	"floodmark/workload"
)

// cardOptions are the flags that say which memory each rank may use.
type cardOptions struct {
	gpu, card, platform, capacity, host string
	free                                []string
	here                                bool
}

func (o *cardOptions) addFlags(f *pflag.FlagSet) {
	textFlag(f, &o.gpu, "gpu", "the `card` under every rank, by a name of the catalogue, or a slice of one (a100-sxm4-80gb:3g.40gb)")
	textFlag(f, &o.card, "card", "all: the answer for every `card` of the catalogue; a name is that card")
	f.BoolVar(&o.here, "here", false, "the devices that programs see on this machine, with what is free of them now")
	textFlag(f, &o.platform, "platform", "where the card is used: linux, wsl or windows (default: any of them)")
	textFlag(f, &o.capacity, "capacity", "the `total` that the card reports to a program, in place of the catalogue's; a fraction counts as rounded (79.2GiB)")
	textFlag(f, &o.host, "host-capacity", "`bytes` of main memory that the ranks may use together, for what is offloaded (256GiB)")
	textsFlag(f, &o.free, "free", "`bytes` that are free on each device, or on that of one rank (60GiB, cuda:1=60.33GiB); may be given several times")
}

// over puts the flags that were given over a workload file.
func (o *cardOptions) over(file *workload.File) {
	for _, f := range []struct {
		given string
		into  *string
	}{{o.gpu, &file.GPU}, {o.platform, &file.Platform}, {o.capacity, &file.Capacity}} {
		if f.given != "" {
			*f.into = f.given
		}
	}
}

// settle finds the card of a workload file, and what is free of it.
func (o *cardOptions) settle(file *workload.File, r *floodmark.Request) error {
	var err error
	if r.Card, r.Platform, err = findCard(file.GPU, file.Platform); err != nil {
		return err
	}
	if file.Capacity != "" {
		if err := withCapacity(file.Capacity, r); err != nil {
			return err
		}
	}
	if o.host != "" {
		if r.Workload.Host, err = memory("--host-capacity", o.host); err != nil {
			return err
		}
	}
	free := o.free
	if len(free) == 0 && file.Free != "" {
		free = []string{file.Free}
	}
	r.Free, err = freeBytes(free)
	return err
}

// memory is a positive number of bytes.
func memory(flag, text string) (int64, error) {
	n, err := bytesize.Parse(text)
	if err == nil && n < 1 {
		err = fmt.Errorf("%q is no memory", text)
	}
	if err != nil {
		return 0, &usageError{err: fmt.Errorf("%s: %w", flag, err)}
	}
	return n, nil
}

// onHere puts the devices of this machine under a request, in place of what its
// workload file says of a card.
func (s *session) onHere(ctx context.Context, o *cardOptions, r *floodmark.Request) error {
	if !o.here {
		return nil
	}
	here, err := floodmark.Visible(ctx, s.env.Environ)
	if err != nil {
		return fmt.Errorf("--here: %w", err)
	}
	return here.Under(r)
}

// withCapacity puts a declared total in place of what is known of the card.
func withCapacity(text string, r *floodmark.Request) error {
	total, err := printed("--capacity", text)
	if err != nil {
		return err
	}
	c := device.Declared(total)
	if r.Card != nil {
		c = r.Card.WithTotal(total)
	}
	r.Card = &c
	return nil
}

// printed is a positive number of bytes as somebody copied it.
func printed(flag, text string) (account.Figure, error) {
	low, high, err := bytesize.ParsePrinted(text)
	if err == nil && low < 1 {
		err = fmt.Errorf("%q is no memory", text)
	}
	if err != nil {
		return account.Figure{}, &usageError{err: fmt.Errorf("%s: %w", flag, err)}
	}
	return account.Between(low, high, account.Provenance{Origin: account.Assumed, Scope: account.Device}), nil
}

// freeBytes reads "60GiB" and "cuda:1=60.33GiB"; nil where nothing was given.
func freeBytes(list []string) (map[int]account.Figure, error) {
	var free map[int]account.Figure
	for _, text := range list {
		index, bytes := floodmark.AnyDevice, text
		if name, value, ok := strings.Cut(text, "="); ok {
			n, err := deviceIndex("--free", name)
			if err != nil {
				return nil, err
			}
			index, bytes = n, value
		}
		f, err := printed("--free", bytes)
		if err != nil {
			return nil, err
		}
		if _, twice := free[index]; twice {
			return nil, &usageError{err: fmt.Errorf("--free: %q says a second time what is free there", text)}
		}
		if free == nil {
			free = map[int]account.Figure{}
		}
		free[index] = f
	}
	return free, nil
}

// deviceIndex reads "cuda:1", or "1".
func deviceIndex(flag, text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(text, "cuda:"))
	if err != nil || n < 0 || n >= workload.MaxDegree {
		return 0, &usageError{err: fmt.Errorf("%s: %q is no device such as cuda:0", flag, text)}
	}
	return n, nil
}

// everyCard is the value of --card or --gpu that asks for the whole catalogue.
const everyCard = "all"

// chosenCard reads --card: a name is another way to say --gpu, and all in either
// asks for every card.
func (o *cardOptions) chosenCard() error {
	switch {
	case o.here && o.gpu+o.card+o.capacity+o.platform+strings.Join(o.free, "") != "":
		return &usageError{err: errors.New("--here reads the devices of this machine: --gpu, --card, --platform, --capacity and --free say the same by hand")}
	case o.card != "" && o.gpu != "":
		return &usageError{err: errors.New("--card and --gpu both name a card")}
	case o.gpu == everyCard:
		o.gpu, o.card = "", everyCard
	case o.card != everyCard:
		o.gpu, o.card = cmp.Or(o.card, o.gpu), ""
	}
	if o.card == everyCard && (o.capacity != "" || len(o.free) > 0) {
		return &usageError{err: errors.New("--card all asks for every card as it is: --capacity and --free are of one card")}
	}
	return nil
}

// cardsExit is 0 when some card holds the workload, 4 when nobody can tell of
// one, and 3 when none does.
func cardsExit(list []record.CardVerdict) error {
	exit := exitDoesNotFit
	for _, c := range list {
		switch c.Verdict.Value {
		case "fits":
			return nil
		case "cannot_tell":
			exit = exitCannotTell
		}
	}
	return &verdictError{exit}
}
