package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/doc"
	"github.com/vramscope/vramscope/internal/bound"
)

// offerTopics makes help print documents, too, and say of an unknown word what it knows.
func offerTopics(root, help *cobra.Command) {
	var most boundFlag
	most.flag(help)
	topics := slices.DeleteFunc(doc.Topics(), func(name string) bool { return names(root, name) })
	help.Use = "help [COMMAND | TOPIC [WORD]]"
	help.Short = "Help about a command, or a document: findings, categories, rules, json, …"
	help.Long = "Help prints how a command is used, or a document on a topic; with a word, what that says about it.\n\nTopics: " +
		strings.Join(topics, ", ") + "."
	help.Example = "  vramscope help analyze\n  vramscope help findings logits_dominate\n  vramscope help rules"
	commands := help.ValidArgsFunction
	help.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 && args[0] == "findings" {
			return doc.Findings(), cobra.ShellCompDirectiveNoFileComp
		}
		if len(args) > 0 || commands == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, how := commands(cmd, args, begun)
		return append(found, topics...), how
	}
	command := help.Run
	help.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && slices.Contains(topics, args[0]) {
			return topic(cmd, args, &most)
		}
		found, rest, err := root.Find(args)
		if err == nil && found == root {
			err = cobra.NoArgs(root, rest)
		}
		if err != nil {
			return fmt.Errorf("%w\n  topics are %s", err, strings.Join(topics, ", "))
		}
		command(cmd, args)
		return nil
	}
}

// names reports whether a word is a command's name.
func names(root *cobra.Command, word string) bool {
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
}

// topic prints a document, or what it says about some words.
func topic(cmd *cobra.Command, args []string, most *boundFlag) error {
	if err := most.check("text"); err != nil {
		return err
	}
	text, err := doc.Topic(args[0], strings.Join(args[1:], " "))
	if err != nil {
		return err
	}
	return boundedLines(cmd.OutOrStdout(), most, text, "vramscope help "+args[0]+" WORD prints a part")
}

// boundedLines prints as many whole lines as a bound allows, and says how many it leaves out.
func boundedLines(w io.Writer, most *boundFlag, text, ask string) error {
	if most.most == 0 {
		_, err := io.WriteString(w, text)
		return err
	}
	const told = 120 // bytes of the last line
	l := &bound.Lines{W: w, Most: most.most - told}
	if int64(len(text)) <= most.most {
		l.Most = most.most
	}
	if _, err := io.WriteString(l, text); err != nil {
		return err
	}
	if err := l.Close(); err != nil || l.Left == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "left out: %d lines; %s\n", l.Left, ask)
	return err
}
