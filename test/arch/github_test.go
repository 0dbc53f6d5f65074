// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	// workflowCommand is a command of a workflow.
	workflowCommand = regexp.MustCompile(`^\s*(?:- )?run: *(.*)$`)
	// allowedCommand is .ci/run or a verb of the Makefile, the first group.
	allowedCommand = regexp.MustCompile(`^(?:sudo -E env "PATH=\$PATH" )?(?:\.ci/run|make ([a-z-]+))$`)
	// modulesFolder is a row of a list of folders in dependabot.yml.
	modulesFolder = regexp.MustCompile(`^  - (/\S*)$`)
)

// TestWorkflowsHoldNoLogic keeps what CI does where everybody can run it: workflows call .ci/run or
// a verb of the Makefile.
func TestWorkflowsHoldNoLogic(t *testing.T) {
	t.Parallel()
	makefile := readLines(t, "Makefile")
	commands := 0
	for _, file := range trackedFiles(t) {
		if !strings.HasPrefix(file, ".github/workflows/") {
			continue
		}
		for number, line := range readLines(t, file) {
			match := workflowCommand.FindStringSubmatch(line)
			if match == nil {
				continue
			}
			commands++
			allowed := allowedCommand.FindStringSubmatch(match[1])
			isVerb := allowed != nil && (allowed[1] == "" ||
				slices.ContainsFunc(makefile, func(rule string) bool { return strings.HasPrefix(rule, allowed[1]+":") }))
			if !isVerb {
				t.Errorf("%s:%d: runs %q; put it into .ci/run or a verb of the Makefile, and call that", file, number+1, match[1])
			}
		}
	}
	if commands == 0 {
		t.Error("no workflow of .github/workflows runs anything")
	}
}

// TestDependabotKnowsEveryModule compares the folders in dependabot.yml with the modules of the tree.
func TestDependabotKnowsEveryModule(t *testing.T) {
	t.Parallel()
	var modules, listed []string
	for _, file := range trackedFiles(t) {
		if path.Base(file) == "go.mod" {
			modules = append(modules, "/"+path.Dir(file))
		}
	}
	for _, line := range readLines(t, ".github/dependabot.yml") {
		if match := modulesFolder.FindStringSubmatch(line); match != nil {
			listed = append(listed, match[1])
		}
	}
	slices.Sort(modules)
	slices.Sort(listed)
	if diff := cmp.Diff(modules, listed); diff != "" {
		t.Errorf(".github/dependabot.yml (-modules +listed):\n%s", diff)
	}
}

// TestCodeOwnersOwnSomething refuses a path of CODEOWNERS that a move has left behind: GitHub ignores it without a word, and
// nobody would be asked to review what moved.
func TestCodeOwnersOwnSomething(t *testing.T) {
	t.Parallel()
	for number, line := range readLines(t, ".github/CODEOWNERS") {
		path, isPath := strings.CutPrefix(strings.SplitN(line, " ", 2)[0], "/")
		if !isPath {
			continue
		}
		if !slices.ContainsFunc(trackedFiles(t), func(file string) bool { return strings.HasPrefix(file, path) }) {
			t.Errorf(".github/CODEOWNERS:%d: there is no %s", number+1, path)
		}
	}
}
