// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ignore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/kit/ignore"
)

func TestCheckLine(t *testing.T) {
	t.Parallel()
	for line, fine := range map[string]bool{
		"a": true, "!a": true, "**": true, "*": true, `\#a`: true, "a b": true, `\ `: true, "/a/": true, strings.Repeat("x", ignore.MaxLineBytes): true,
		"": false, " ": false, "!": false, "/": false, "!/": false, "#a": false, "a\n": false, "a\r": false, "a\x00": false, `a\`: false, "[a": false,
		"[[:bogus:]]": false, strings.Repeat("x", ignore.MaxLineBytes+1): false,
	} {
		if err := ignore.CheckLine(line); (err == nil) != fine {
			t.Errorf("%q: got %v, want fine %v", line, err, fine)
		}
	}
}

// TestLinesAreLinesOfAFile compares the two ways to write patterns.
func TestLinesAreLinesOfAFile(t *testing.T) {
	t.Parallel()
	lines := []string{"a*", "!ab ", "/x/", `b\ `, "**/c"}
	file, list := ignore.Parse([]byte(strings.Join(lines, "\n"))), ignore.ParseLines(lines)
	for _, path := range []string{"a", "ab", "abc", "x", "y/x", "b ", "b", "c", "y/z/c"} {
		for _, folder := range []bool{true, false} {
			if got, want := list.Match(path, folder), file.Match(path, folder); got != want {
				t.Errorf("%q, folder %v: got verdict %d, want %d", path, folder, got, want)
			}
		}
	}
	if got := ignore.ParseLines([]string{"#a"}).Match("#a", false); got != ignore.Ignored {
		t.Errorf("got verdict %d on a name like a comment, want Ignored: a list has no comments", got)
	}
}

func TestChain(t *testing.T) {
	t.Parallel()
	var none *ignore.Chain
	if none.Ignores("a", false) {
		t.Error("got a path ignored without rules")
	}
	root := none.With("", ignore.Parse([]byte("*.tmp\n/top\n")))
	below := root.With("x/y", ignore.Parse([]byte("!keep.tmp\n/top\n")))
	for path, want := range map[string]bool{
		"x/y/a.tmp": true, "x/y/keep.tmp": false, "x/y/z/keep.tmp": false, "x/y/top": true, "x/y/z/top": false, "x/y/a": false,
	} {
		if got := below.Ignores(path, false); got != want {
			t.Errorf("%q: got ignored %v, want %v", path, got, want)
		}
	}
	if !root.Ignores("x/keep.tmp", false) || root.Ignores("x/top", false) || !root.Ignores("top", true) {
		t.Error("got rules of a folder applied above it")
	}
}

// FuzzRules compares arbitrary rules with the git command, on arbitrary paths.
func FuzzRules(f *testing.F) {
	for _, seed := range [][2]string{
		{"*.md\n!a.md", "doc/a.md"},
		{"/a/**/b", "a/x/y/b"},
		{"foo**/bar", "foox/y/bar"},
		{"[!a-c]\\ \\", "d "},
		{"[[:alpha:]-]*/\r\n", "a-/b"},
		{"**/\n!x", "x"},
		{"a\n!a/b\nb", "a/b/c"},
		{"/**/**?*[^/]", "é"},
		{"*a*a*a*a*a*b", strings.Repeat("a", 100)},
	} {
		f.Add(seed[0], seed[1])
	}
	dir := workTree(f)
	f.Fuzz(func(t *testing.T, text, path string) {
		if len(text) > 4<<10 || !possible(path) {
			t.Skip("no such file can be made")
		}
		wantGit(t, dir, forest{"case": {ruleFile: text, path: ""}})
		if err := os.RemoveAll(filepath.Join(dir, "case")); err != nil {
			t.Fatal(err)
		}
	})
}

// possible reports whether a path can be a file of a case.
func possible(path string) bool {
	if len(path) > 1000 || strings.Contains(path, "\x00") {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		switch {
		case name == "", name == ".", name == "..", len(name) > 255, strings.EqualFold(name, ".git"), name == ruleFile:
			return false
		}
	}
	return true
}

// BenchmarkMatch matches twenty typical rules with a path of typical length.
func BenchmarkMatch(b *testing.B) {
	var text strings.Builder
	for i := range 5 {
		_, _ = fmt.Fprintf(&text, "*.tmp%d\n/build%d/\ndocs/**/*.png%d\n**/test%d/\n", i, i, i, i)
	}
	rules := ignore.Parse([]byte(text.String()))
	for b.Loop() {
		if rules.Match("apps/team-07/service-0042/deployment.yaml", false) != ignore.Undecided {
			b.Fatal("got a verdict")
		}
	}
}

// BenchmarkHostile matches a pattern that takes a backtracking matcher for ever.
func BenchmarkHostile(b *testing.B) {
	rules := ignore.ParseLines([]string{"/" + strings.Repeat("**/*a", 100) + "/b"})
	path := strings.Repeat("a/", 2000) + "c"
	for b.Loop() {
		if rules.Match(path, false) != ignore.Undecided {
			b.Fatal("got a verdict")
		}
	}
}
