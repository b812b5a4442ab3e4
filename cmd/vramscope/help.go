package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// groupKey is the annotation of a flag that says in which group of the help it stands.
const groupKey = "vramscope_group"

// modelGroup is shown by --help model alone: most never need it.
const modelGroup = "The model's setting, to compare a recording with its budget"

// grouped adds flags of one group.
func grouped(cmd *cobra.Command, title string, add func()) {
	known := map[string]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	add()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !known[f.Name] {
			cobra.CheckErr(cmd.Flags().SetAnnotation(f.Name, groupKey, []string{title}))
		}
	})
}

// groupHelp writes the help of a command whose flags stand in groups, in this order.
func groupHelp(cmd *cobra.Command, titles ...string) {
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		out := cmd.OutOrStdout()
		fmt.Fprintf(out, "%s\n\nUsage:\n  %s\n\nExamples:\n%s\n", cmd.Long, cmd.UseLine(), cmd.Example)
		model := slices.Contains(args, "model")
		for _, title := range titles {
			if title != modelGroup || model {
				writeGroup(out, cmd, title)
			}
		}
		if !model {
			fmt.Fprintf(out, "\n%s: vramscope %s --help model\n", modelGroup, cmd.Name())
		}
	})
}

func writeGroup(out io.Writer, cmd *cobra.Command, title string) {
	flags := pflag.NewFlagSet(title, pflag.ContinueOnError)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if of := f.Annotations[groupKey]; len(of) == 1 && of[0] == title {
			flags.AddFlag(f)
		}
	})
	fmt.Fprintf(out, "\n%s:\n%s", title, flags.FlagUsages())
}

var (
	tooMany  = regexp.MustCompile(`^(?:accepts|requires( at least)) (\d+) arg\(s\), (?:only )?received (\d+)$`)
	noValue  = regexp.MustCompile(`^invalid argument (".*") for "(.*)" flag: (strconv\.(?:ParseInt|ParseFloat|ParseBool)|time)`)
	required = regexp.MustCompile(`^required flag\(s\) "([a-z-]+)" not set$`)
	noFlag   = regexp.MustCompile(`^unknown (?:shorthand )?flag: (.*)$`)
	// noCommand is of the program itself; what follows may be what cobra thinks was meant.
	noCommand = regexp.MustCompile(`^unknown command "(.+)" for "vramscope"`)
)

// ownWords are an error of the library that reads command lines, in this program's words.
func ownWords(cmd *cobra.Command, err error) string {
	text := strings.ReplaceAll(err.Error(), "\t", "  ")
	if cmd == nil {
		return text
	}
	usage := "\n  " + cmd.UseLine()
	switch m := noCommand.FindStringSubmatch(text); {
	case m != nil && isThere(m[1]):
		return fmt.Sprintf("%q is a file or folder, not a command\n  vramscope analyze %s", m[1], m[1])
	case tooMany.MatchString(text):
		m := tooMany.FindStringSubmatch(text)
		return fmt.Sprintf("%s: inputs to give:%s %s; given: %s%s", cmd.Name(), m[1], m[2], m[3], usage)
	case noValue.MatchString(text):
		m := noValue.FindStringSubmatch(text)
		return fmt.Sprintf("%s: %s is not %s", m[2], m[1], map[string]string{"strconv.ParseInt": "a whole number",
			"strconv.ParseFloat": "a number", "strconv.ParseBool": "true or false", "time": "a time such as 30s or 2m"}[m[3]])
	case required.MatchString(text):
		return fmt.Sprintf("%s: --%s is missing%s", cmd.Name(), required.FindStringSubmatch(text)[1], usage)
	case noFlag.MatchString(text):
		return fmt.Sprintf("%s: there is no flag %s\n  vramscope %s --help lists those there are", cmd.Name(),
			noFlag.FindStringSubmatch(text)[1], cmd.Name())
	}
	return text
}

func isThere(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
