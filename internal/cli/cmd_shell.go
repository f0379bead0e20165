package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newHelp is the help command: cobra's own ends with 0 for a word that is no
// command.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, c := range cmd.Root().Commands() {
				names = append(names, c.Name())
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		Args: takes(0, 1, "at most one command"),
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return noCommand(cmd.Root(), args[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "The script that completes floodmark in bash, zsh, fish or powershell",
		Long: `Prints a script by which the shell completes commands, flags and names of cards.
SHELL is bash, zsh, fish or powershell.`,
		Example: `  source <(floodmark completion bash)
  floodmark completion zsh > "${fpath[1]}/_floodmark"
  floodmark completion fish | source`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args:      takes(1, 1, "one shell"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, w := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(w, true)
			case "zsh":
				return root.GenZshCompletion(w)
			case "fish":
				return root.GenFishCompletion(w, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(w)
			}
			return &usageError{err: fmt.Errorf("there is no completion for %q", args[0]), hint: "the shells are bash, zsh, fish and powershell"}
		},
	}
}
