package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// bought is the title of the list in CHANGELOG.md that says what the lines of all
// files bought: a row whenever they become more, the newest first.
const bought = "## Lines of product Go, and what they bought"

// spare is how many lines the newest row may say beyond those that are there.
const spare = 500

// allowed is how many lines the newest row says, as a number and as it is written.
func allowed(changelog string) (lines int, written string, err error) {
	_, section, found := strings.Cut(changelog, "\n"+bought+"\n")
	if !found {
		return 0, "", fmt.Errorf("CHANGELOG.md has no list %q", bought)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for line := range strings.SplitSeq(section, "\n") {
		if strings.HasPrefix(line, "|") {
			rows = append(rows, line)
		}
	}
	const heads = 2 // the columns' names, and a rule
	if len(rows) <= heads {
		return 0, "", fmt.Errorf("CHANGELOG.md: %q has no row", bought)
	}
	for i := len(rows) - 1; i >= heads; i-- {
		cells := strings.Split(rows[i], "|")
		written = strings.TrimSpace(cells[1])
		if lines, err = readRow(cells); err != nil {
			return 0, "", fmt.Errorf("CHANGELOG.md, %q: %w", rows[i], err)
		}
	}
	return lines, written, nil
}

// readRow returns the lines of a row, which must say what they bought.
func readRow(cells []string) (int, error) {
	if len(cells) != 4 || cells[3] != "" {
		return 0, errors.New("a row has two cells: lines, and what they bought")
	}
	n, err := strconv.Atoi(strings.ReplaceAll(strings.TrimSpace(cells[1]), ",", ""))
	switch {
	case err != nil || n <= 0:
		return 0, errors.New("the first cell is a number of lines")
	case len(strings.Fields(cells[2])) < 2:
		return 0, errors.New("the second cell says what the lines bought")
	}
	return n, nil
}

// accounted says what is wrong with so many lines, "" if nothing.
func accounted(lines, allowed int) string {
	switch {
	case lines > allowed:
		return fmt.Sprintf("%d lines of product Go, and CHANGELOG.md accounts for %d: delete %d, or put a row on top of %q, "+
			"with the new number and the capability that it bought", lines, allowed, lines-allowed, bought)
	case lines < allowed-spare:
		return fmt.Sprintf("%d lines of product Go are fewer than the %d of CHANGELOG.md: go test ./internal/testing/house -update "+
			"takes that down", lines, allowed)
	}
	return ""
}

// takenDown is the text with the newest row at so many lines, if they are fewer.
func takenDown(changelog string, lines int) (string, error) {
	n, written, err := allowed(changelog)
	if err != nil || lines >= n {
		return changelog, err
	}
	before, section, _ := strings.Cut(changelog, "\n"+bought+"\n")
	section = strings.Replace(section, "| "+written+" |", "| "+strconv.Itoa(lines)+" |", 1)
	return before + "\n" + bought + "\n" + section, nil
}
