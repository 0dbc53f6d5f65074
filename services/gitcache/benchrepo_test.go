// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/gitbin"
	"github.com/leatdev/leat/services/gitcache/internal/gogit"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// history describes a generated repository of files like the files that people keep for clusters.
// The same description makes the same commits.
type history struct {
	files   int // of the folder "apps"
	commits int // after the first; each changes one file in a few lines
}

// generate fills a repository's branch main and packs it as a Git host would.
func (h history) generate(t testing.TB, repo *gittest.Repo) {
	t.Helper()
	h.extend(t, repo, 0, h.commits)
	repo.Git(t, "repack", "-a", "-d", "-q")
}

// extend adds the commits from (0: the first, with all files) to to.
func (h history) extend(t testing.TB, repo *gittest.Repo, from, to int) {
	t.Helper()
	script, writer := io.Pipe()
	go func() { _ = writer.CloseWithError(h.write(writer, from, to)) }()
	cmd := exec.CommandContext(t.Context(), "git", "fast-import", "--quiet", "--force")
	cmd.Dir, cmd.Stdin = repo.Dir(), script
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git fast-import: %v\n%s", err, out)
	}
}

func (h history) write(w io.Writer, from, to int) error {
	for n := from; n <= to; n++ {
		message := fmt.Sprintf("Commit %d", n)
		if _, err := fmt.Fprintf(w, "commit refs/heads/main\ncommitter Leat <leat@leat.invalid> %d +0000\ndata %d\n%s\n",
			1767225600+n, len(message), message); err != nil {
			return err
		}
		if n == from && from > 0 {
			fmt.Fprint(w, "from refs/heads/main^0\n")
		}
		changed := []int{n * 7919 % h.files}
		if n == 0 {
			changed = changed[:0]
			for i := range h.files {
				changed = append(changed, i)
			}
		}
		for _, i := range changed {
			text := manifest(i, n)
			if _, err := fmt.Fprintf(w, "M 100644 inline apps/team-%02d/service-%05d/%s.yaml\ndata %d\n%s\n",
				i/4%40, i/4, []string{"deployment", "service", "config", "ingress"}[i%4], len(text), text); err != nil {
				return err
			}
		}
	}
	return nil
}

// manifest is a document of about 1.3 kB whose words repeat, as they do, and whose values do not.
func manifest(file, version int) string {
	random := rand.New(rand.NewPCG(uint64(file), 1)) // the same content each time
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: service-%05d\n  labels:\n    app.kubernetes.io/version: v1.%d.0\nspec:\n"+
		"  template:\n    spec:\n      containers:\n      - name: main\n        image: registry.example.com/service-%05d@sha256:%016x%016x\n        env:\n",
		file, version, file, random.Uint64(), random.Uint64())
	for i := range 12 {
		fmt.Fprintf(&b, "        - name: SETTING_%02d\n          value: %q\n", i, fmt.Sprintf("%x", random.Uint64()))
	}
	b.WriteString("        resources:\n          requests: {cpu: 100m, memory: 128Mi}\n          limits: {memory: 256Mi}\n")
	return b.String()
}

// backends are the back ends by the names of their benchmarks. The default one is "leat"; the other
// one is a peer, so that both are in one row of a table.
var backends = map[string]func(t testing.TB, dir string) mirror.Backend{"leat": newGoGit, "peer=backend-git": newGitBin}

// newGoGit opens mirrors below a folder with the back end gogit.
func newGoGit(t testing.TB, dir string) mirror.Backend {
	t.Helper()
	git, err := gogit.New(gogit.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return git
}

// newGitBin opens mirrors below a folder with the back end git.
func newGitBin(t testing.TB, dir string) mirror.Backend {
	t.Helper()
	git, err := gitbin.New(gitbin.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return git
}

// clone mirrors a repository under the UID "uid" and returns what the mirror holds.
func clone(t testing.TB, git mirror.Upstream, repo *gittest.Repo, have mirror.Content) mirror.Content {
	t.Helper()
	content, err := git.Fetch(t.Context(), mirror.FetchParams{
		Definition: mirror.Definition{Name: "demo", UID: "uid", Definition: upstream.Definition{URL: repo.URL()}}, Have: have, Epoch: 1, Guard: func() error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return content
}
