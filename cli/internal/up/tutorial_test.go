// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/vaultdouble"
	"github.com/leatdev/leat/internal/testkit/vaulttest"
)

// Addresses of the page.
const (
	// defaultRepository is where a leat up without flags serves its repository.
	defaultRepository = "http://127.0.0.1:8703/demo.git"
	// defaultVault is where a Vault without settings serves.
	defaultVault = "http://127.0.0.1:8200"
	// tutorialToken is the token with which the page has Vault start.
	tutorialToken = "tutorial"
)

// fence is a block of a page: what it is, and its text.
type fence struct{ kind, text string }

// fences returns the blocks of a Markdown page.
func fences(page string) []fence {
	var all []fence
	for _, match := range regexp.MustCompile("(?ms)^```([a-z]+)\\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		all = append(all, fence{match[1], match[2]})
	}
	return all
}

// reader is a person who follows a page in one shell.
type reader struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

// mark separates the outputs of blocks.
const mark = "@@@ end of block"

// newReader starts a shell in folder that ends at the first command that fails.
func newReader(t *testing.T, folder string, env ...string) *reader {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "bash", "-eu")
	shell.Dir, shell.Env = folder, append(os.Environ(), env...)
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	shell.Stderr = shell.Stdout
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // ends the shell, if it has not ended already
		_ = shell.Wait()
	})
	return &reader{in: in, out: bufio.NewScanner(out)}
}

// run runs a block, and returns what it printed.
func (r *reader) run(t *testing.T, block string) string {
	t.Helper()
	if _, err := fmt.Fprintf(r.in, "%s\necho %q\n", block, mark); err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	for r.out.Scan() {
		if r.out.Text() == mark {
			return printed.String()
		}
		printed.WriteString(r.out.Text() + "\n")
	}
	t.Fatalf("a command of this block failed:\n%s\nit printed:\n%s", block, printed.String())
	return ""
}

// shown reports the first line of expected that printed does not have, in that order; empty: it has all.
// … stands for any text, and spaces for any number of them.
func shown(printed, expected string) (missing string) {
	lines := strings.Split(printed, "\n")
	for line := range strings.Lines(expected) {
		words := strings.Fields(strings.ReplaceAll(line, "…", " … "))
		for i, word := range words {
			if words[i] = regexp.QuoteMeta(word); word == "…" {
				words[i] = ".*"
			}
		}
		pattern := regexp.MustCompile("^\\s*" + strings.Join(words, "\\s*") + "\\s*$")
		i := slices.IndexFunc(lines, pattern.MatchString)
		if i < 0 {
			return line
		}
		lines = lines[i+1:]
	}
	return ""
}

// TestTutorial follows the tutorial with the double of a Vault, which passes the suite that a Vault passes.
// TestSlowTutorial has a real one.
func TestTutorial(t *testing.T) {
	t.Parallel()
	double := vaultdouble.Start(t)
	double.Token(tutorialToken)
	followTutorial(t, double.URL)
}

// TestSlowTutorial is TestTutorial with a real Vault, set up as vault server -dev does.
func TestSlowTutorial(t *testing.T) {
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: a real Vault is left to `make test-all`")
	}
	server := vaulttest.Start(t)
	server.Call(t, http.MethodPost, "sys/mounts/secret", map[string]any{"type": "kv", "options": map[string]string{"version": "2"}}, nil)
	server.Call(t, http.MethodPost, "auth/token/create", map[string]any{"id": tutorialToken, "policies": []string{"root"}}, nil)
	followTutorial(t, server.URL)
}

// followTutorial follows docs/start/tutorial.md: it runs each block of commands in one shell, and
// compares what they print with what the page shows.
func followTutorial(t *testing.T, vaultURL string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/start/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	checkout := filepath.Join(root, "leat")
	if err := os.CopyFS(filepath.Join(checkout, "examples", "tutorial"), os.DirFS("../../../examples/tutorial")); err != nil {
		t.Fatal(err)
	}
	p := startUp(t, leat, filepath.Join(root, "up"), "--clusters", "3")
	summary := p.ready(t)
	path := []string{filepath.Dir(leat), filepath.Dir(summary.Kubectl), os.Getenv("PATH")}
	r := newReader(t, checkout,
		"LEAT_CONFIG="+summary.Config, "PATH="+strings.Join(path, string(os.PathListSeparator)), "HOME="+root, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	before, after, ok := strings.Cut(string(page), restartMark)
	if !ok {
		t.Fatalf("docs/start/tutorial.md does not say %q", restartMark)
	}
	f := follower{reader: r, repository: summary.Repository, vault: vaultURL, checkout: checkout}
	f.follow(t, before)
	p.stop(t)
	p = startUp(t, leat, filepath.Join(root, "up"), "--clusters", "3")
	summary = p.ready(t)
	// A person's ports stay the same.
	f.repository = summary.Repository
	r.run(t, "git remote set-url origin "+summary.Repository+"\nrm clusters.kubeconfig\nleat kubeconfig --all --file clusters.kubeconfig")
	f.follow(t, after)
	if f.commands < 10 {
		t.Errorf("docs/start/tutorial.md has %d blocks of commands, want its whole story", f.commands)
	}
	p.stop(t)
}

// restartMark marks the place of the page at which leat up may be stopped and started again.
const restartMark = "<!-- The test stops leat up here, and starts it again. -->"

// follower follows a page.
type follower struct {
	*reader

	repository, vault, checkout string
	commands                    int
}

// follow runs the commands of a part of the page, and compares what they print with what it shows.
func (f *follower) follow(t *testing.T, page string) {
	t.Helper()
	printed := ""
	for _, block := range fences(page) {
		switch block.kind {
		case "sh":
			printed = f.run(t, strings.NewReplacer(defaultRepository, f.repository, defaultVault, f.vault).Replace(block.text))
			f.commands++
		case "text":
			if missing := shown(printed, block.text); missing != "" {
				t.Errorf("docs/start/tutorial.md shows\n%s\nbut the commands printed\n%s", missing, printed)
			}
		case "yaml":
			checkExample(t, f.checkout, block.text)
		}
	}
}

// checkExample compares a document of the page with the files that the reader copies.
func checkExample(t *testing.T, checkout, document string) {
	t.Helper()
	for _, content := range filesBelow(t, filepath.Join(checkout, "examples", "tutorial")) {
		if strings.Contains(content, document) {
			return
		}
	}
	t.Errorf("no file of examples/tutorial has\n%s", document)
}
