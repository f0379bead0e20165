package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// hintEmpty is why a value is empty, most of the time.
const hintEmpty = "is a shell variable not set?"

// takes checks the number of arguments, which what names: "one file". An empty
// argument names nothing, so it is refused here for every command.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		hint := "usage: " + cmd.UseLine()
		switch n := len(args); {
		case n < least || n > most:
			got := strconv.Itoa(n)
			if n == 0 {
				got = "none"
			}
			return &usageError{err: fmt.Errorf("%s takes %s, and got %s", cmd.Name(), what, got), hint: hint}
		case slices.Contains(args, ""):
			return &usageError{err: fmt.Errorf("%s takes %s, and got an empty name", cmd.Name(), what), hint: hintEmpty}
		}
		return nil
	}
}

// unknownCommand refuses what the root is given: it has commands and takes no
// arguments.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	// An abbreviation is no command, so the name must be the same.
	if i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == args[0] }); i >= 0 {
		return &usageError{err: fmt.Errorf("the command %q stands behind --, where only arguments are", args[0]),
			hint: "write the command first: floodmark " + args[0]}
	}
	return noCommand(cmd, args[0])
}

// noCommand is the error for a word that is no command of the root.
func noCommand(root *cobra.Command, word string) error {
	if word == "" {
		return &usageError{err: errors.New("the name of the command is empty"), hint: hintEmpty}
	}
	hint := "see: floodmark --help"
	if near := root.SuggestionsFor(word); len(near) > 0 {
		hint = "did you mean: floodmark " + near[0]
	}
	return &usageError{err: fmt.Errorf("there is no command %q", word), hint: hint}
}

// flagError puts an error of the flag library into our words.
func flagError(cmd *cobra.Command, err error) error {
	u := &usageError{err: err, hint: "see: " + cmd.CommandPath() + " --help"}
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var syntax *pflag.InvalidSyntaxError
	var usage *usageError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		u.err = fmt.Errorf("there is no flag -%s in -%s", unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames())
	case errors.As(err, &unknown):
		u.err = fmt.Errorf("there is no flag --%s", unknown.GetSpecifiedName())
	case errors.As(err, &value) && value.GetFlag().Value.Type() == "bool":
		u.err = fmt.Errorf("--%s: %q is not true or false", value.GetFlag().Name, value.GetValue())
	case errors.As(err, &value):
		u.err = fmt.Errorf("--%s: %w", value.GetFlag().Name, value.Unwrap())
		if errors.As(err, &usage) && usage.hint != "" {
			u.hint = usage.hint
		}
	case errors.As(err, &missing):
		u.err = fmt.Errorf("--%s: its value is missing", missing.GetFlag().Name)
	case errors.As(err, &syntax):
		u.err = fmt.Errorf("%q is not how a flag is written", syntax.GetSpecifiedFlag())
	}
	return u
}

// wantsJSON looks for --json before any flag is parsed, because an error in the
// flags must come in the form that was asked for. It steps over the values of
// other flags, which may look like it.
func wantsJSON(root *cobra.Command, args []string) bool {
	cmd, _, err := root.Find(args)
	if err != nil {
		cmd = root
	}
	on := false
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		name, long := strings.CutPrefix(args[i], "--")
		name, value, has := strings.Cut(name, "=")
		switch {
		case long && name == "json":
			parsed, err := strconv.ParseBool(value)
			on = !has || err == nil && parsed
		case long && !has && takesValue(cmd.Flag(name)), !long && shortTakesNext(root, args[i]):
			i++
		}
	}
	return on
}

// takesValue reports a flag whose value is the next argument.
func takesValue(f *pflag.Flag) bool { return f != nil && f.NoOptDefVal == "" }

// shortTakesNext reports a group of short flags, all of them the root's, of
// which the last takes the next argument: -o, but not -oFILE.
func shortTakesNext(root *cobra.Command, group string) bool {
	letters, ok := strings.CutPrefix(group, "-")
	if !ok {
		return false
	}
	for i := range len(letters) {
		if takesValue(root.PersistentFlags().ShorthandLookup(letters[i : i+1])) {
			return i == len(letters)-1
		}
	}
	return false
}
