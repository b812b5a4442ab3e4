package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/skill"
)

func newSkill() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skill",
		Short: "What coding agents need to know to work with this program",
		Long: `Skill prints the SKILL.md that tells an agent when to use vramscope, in which order to
ask, and what never to conclude; install writes it with its references.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), skill.Text)
			return err
		},
	}
	dir := ""
	install := &cobra.Command{
		Use:   "install",
		Short: "Write the skill into a folder of an agent",
		Example: `  vramscope skill install                                      # of this project, for any agent
  vramscope skill install --dir ~/.claude/skills/vramscope     # of one agent, everywhere`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			written, err := skill.Install(dir)
			if err != nil {
				return fmt.Errorf("--dir %s: %w", dir, err)
			}
			for _, name := range written {
				fmt.Fprintln(cmd.OutOrStdout(), name)
			}
			return nil
		},
	}
	install.Flags().StringVar(&dir, "dir", ".agents/skills/vramscope", "the skill's own `DIR`")
	cmd.AddCommand(install)
	return cmd
}
