// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leatdev/leat/cli/internal/command"
	"github.com/leatdev/leat/cli/internal/failure"
)

var (
	// endOfCommand is the text that follows the words of a command in a line of a shell: a pipe, a
	// redirection, another command, a comment, or a column of remarks.
	endOfCommand = regexp.MustCompile(` \||>|; | && |  +| #| <<| \\$`)
	// substitution is a command of its own, in place of a word.
	substitution = regexp.MustCompile(`\$\([^)]*\)`)
	// ofGroup is the line of a help text that names a command with others below it. The group is its
	// name.
	ofGroup = regexp.MustCompile(`(?m)^  leat (.*)\[command\]$`)
)

// TestDocumentedCommandsExist asks for the help of each command in the shell examples of all pages,
// with the flags that the page gives it: a command or a flag that does not exist has none.
func TestDocumentedCommandsExist(t *testing.T) {
	t.Parallel()
	commands := 0
	for _, page := range pagesWithCommands(t) {
		for _, line := range commandsOf(t, page) {
			commands++
			args := words(endOfCommand.Split(substitution.ReplaceAllString(line, "x"), 2)[0])[1:]
			if problem := problemOf(t, args); problem != "" {
				t.Errorf("%s: %s: %s", page, line, problem)
			}
		}
	}
	if commands < 50 {
		t.Errorf("got %d commands on all pages, want at least 50", commands)
	}
}

func TestProblemsOfCommandsAreFound(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"nothing", "rollout nothing shop", "rollout status shop --nothing", "get services --filter",
	} {
		if problemOf(t, strings.Fields(line)) == "" {
			t.Errorf("leat %s: got no problem, want one", line)
		}
	}
	for _, line := range []string{"rollout", "rollout status shop", "get services -A --filter x"} {
		if problem := problemOf(t, strings.Fields(line)); problem != "" {
			t.Errorf("leat %s: got %s, want no problem", line, problem)
		}
	}
}

// problemOf returns the defect in the words of a command, or an empty string. It runs nothing but
// the command's help.
func problemOf(t *testing.T, args []string) string {
	t.Helper()
	var out, failed bytes.Buffer
	exit := command.Run(t.Context(), command.Params{
		Args: append(args[:len(args):len(args)], "--help"), In: strings.NewReader(""), Out: &out, Err: &failed,
		LookupEnv: func(string) (string, bool) { return "", false },
	})
	if exit != failure.ExitOK {
		return strings.TrimSpace(failed.String())
	}
	if group := ofGroup.FindStringSubmatch(out.String()); group != nil {
		if names := len(strings.Fields(group[1])); len(args) > names && !strings.HasPrefix(args[names], "-") {
			return "there is no command " + args[names]
		}
	}
	return ""
}

// commandsOf returns the lines of a page's shell examples that run leat.
func commandsOf(t *testing.T, page string) []string {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	language, isCode := "", false
	for line := range strings.Lines(string(content)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		if after, isFence := strings.CutPrefix(line, "```"); isFence {
			language, isCode = after, !isCode
			continue
		}
		isShell := language == "" || language == "sh" || language == "console"
		if isCode && isShell && strings.HasPrefix(line, "leat ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// pagesWithCommands returns the pages that people read before they run leat.
func pagesWithCommands(t *testing.T) []string {
	t.Helper()
	const top = "../../.."
	pages, err := filepath.Glob(filepath.Join(top, "services", "*", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, filepath.Join(top, "README.md"), filepath.Join(top, "SECURITY.md"))
	err = filepath.WalkDir(filepath.Join(top, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}
