// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package commitpack_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/commitpack"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/history"
)

// repo is a real repository, whose objects are in packs.
type repo struct{ dir string }

// git runs git without the user's configuration, and returns its output.
func (r repo) git(t *testing.T, stdin []byte, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = r.dir, bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+r.dir,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.invalid", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.invalid")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func newRepo(t *testing.T, format string) repo {
	t.Helper()
	r := repo{t.TempDir()}
	r.git(t, nil, "init", "--quiet", "--initial-branch=main", "--object-format="+format)
	return r
}

func (r repo) write(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(r.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// commit commits all, and puts it into a pack.
func (r repo) commit(t *testing.T) string {
	t.Helper()
	r.git(t, nil, "add", "--all")
	r.git(t, nil, "commit", "--quiet", "--allow-empty", "--message=x")
	r.git(t, nil, "repack", "-adq")
	return r.git(t, nil, "rev-parse", "HEAD")
}

func (r repo) open(t *testing.T) content.Reader {
	t.Helper()
	reader, err := history.Open(filepath.Join(r.dir, ".git"), history.Params{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	return reader
}

func params(base string, files map[string]string) commitpack.Params {
	p := commitpack.Params{
		Base: base, Files: map[string][]byte{}, Name: "Leat", Email: "leat@example.invalid", Time: time.Unix(1_700_000_000, 0), Message: "Change\n\nthem\n",
	}
	for path, text := range files {
		p.Files[path] = []byte(text)
	}
	return p
}

// TestGitMakesTheSame compares commits with the ones that git makes of the same files, in both
// formats of objects, and has git read the pack.
func TestGitMakesTheSame(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, format)
			r.write(t, map[string]string{
				"a": "a\n", "a.b/x": "x\n", "a-b": "ab\n", "d/e/f/g": "g\n", "d/e/h": "h\n", "d/run": "run\n", "d/same": "same\n", "z": "",
			})
			if err := errors.Join(os.Chmod(filepath.Join(r.dir, "d/run"), 0o700), os.Symlink("same", filepath.Join(r.dir, "d/link"))); err != nil {
				t.Fatal(err)
			}
			base := r.commit(t)
			changed := map[string]string{
				"a": strings.Repeat("a", 15) + "\n", "a.b/x": strings.Repeat("x", 5000), "d/e/f/g": "", "d/run": "run 2\n", "d/e/h": "", "d/same": "same\n",
			}
			made, err := commitpack.Make(t.Context(), r.open(t), params(base, changed))
			if err != nil {
				t.Fatal(err)
			}
			if len(made.Changed) != 5 {
				t.Errorf("got the changes %v, want all but d/same", made.Changed)
			}
			r.git(t, made.Pack, "index-pack", "--stdin", "--strict")
			r.git(t, nil, "fsck", "--strict", made.ID)
			r.write(t, changed)
			r.git(t, nil, "add", "--all")
			if want, got := r.git(t, nil, "write-tree"), r.git(t, nil, "rev-parse", made.ID+"^{tree}"); got != want {
				t.Errorf("got the tree %s, want %s as git makes it", got, want)
			}
			want := "Leat <leat@example.invalid> 1700000000 Change\n\nthem"
			if got := r.git(t, nil, "log", "-1", "--format=%an <%ae> %ct %B", made.ID); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := r.git(t, nil, "rev-parse", made.ID+"^"); got != base {
				t.Errorf("got the parent %s, want %s", got, base)
			}

			same, err := commitpack.Make(t.Context(), r.open(t), params(made.ID, changed))
			if err != nil || same.ID != made.ID || len(same.Pack) != 0 {
				t.Errorf("got %s (%v) for contents that are there already, want %s", same.ID, err, made.ID)
			}
		})
	}
}

// TestSecTreesStayAsTheyAre refuses trees that would change beside the files: one with a mode that
// Git no longer writes. Nothing is written through links, and into folders of Git's own.
func TestSecTreesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "sha1")
	r.write(t, map[string]string{"a": "a\n"})
	r.commit(t)
	blob := r.git(t, nil, "rev-parse", "HEAD:a")
	raw := []byte("100664 a\x00")
	for i := 0; i < len(blob); i += 2 {
		var b byte
		for _, digit := range blob[i : i+2] {
			b = b<<4 | byte(strings.IndexRune("0123456789abcdef", digit))
		}
		raw = append(raw, b)
	}
	tree := r.git(t, raw, "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
	old := r.git(t, nil, "commit-tree", "-m", "old", tree)
	r.git(t, nil, "update-ref", "refs/heads/old", old)
	r.git(t, nil, "repack", "-adq")
	_, err := commitpack.Make(t.Context(), r.open(t), params(old, map[string]string{"a": "b\n"}))
	if !errors.Is(err, content.ErrMalformed) {
		t.Errorf("got %v, want the tree refused", err)
	}
	for _, path := range []string{"", ".", "..", "/a", "a/", "a//b", "./a", "a/../b", ".git/config", "x/.Git/config", "a\\b", "a\x00"} {
		if err := commitpack.CheckPath(path); err == nil {
			t.Errorf("%q: got no error", path)
		}
	}
}

// TestBrings finds out whether a branch has a change already.
func TestBrings(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "sha1")
	commit := func(from string, files map[string]string) string {
		t.Helper()
		if from != "" {
			r.git(t, nil, "checkout", "--quiet", "--detach", from)
		}
		r.write(t, files)
		id := r.commit(t)
		r.git(t, nil, "update-ref", "refs/heads/at-"+id, id)
		return id
	}
	first := commit("", map[string]string{"a": "1\n", "d/b": "1\n"})
	second := commit(first, map[string]string{"d/b": "2\n"})
	wanted := params(second, map[string]string{"a": "2\n"})
	unrelated := commit(r.git(t, nil, "commit-tree", "-m", "root", first+"^{tree}"), map[string]string{"a": "2\n"})
	for name, test := range map[string]struct {
		head string
		want bool
	}{
		"on the base":              {commit(second, map[string]string{"a": "2\n"}), true},
		"on a commit before":       {commit(first, map[string]string{"a": "2\n"}), true},
		"with other content":       {commit(second, map[string]string{"a": "3\n"}), false},
		"with more":                {commit(second, map[string]string{"a": "2\n", "d/b": "3\n"}), false},
		"with another file":        {commit(second, map[string]string{"d/b": "3\n"}), false},
		"in two commits":           {commit(commit(second, map[string]string{"d/b": "3\n"}), map[string]string{"a": "2\n"}), false},
		"on another history":       {unrelated, false},
		"the base itself":          {second, false},
		"a commit without parents": {r.git(t, nil, "rev-parse", unrelated+"^"), false},
	} {
		reader := r.open(t)
		made, err := commitpack.Make(t.Context(), reader, wanted)
		if err != nil {
			t.Fatal(err)
		}
		got, err := commitpack.Brings(t.Context(), reader, test.head, second, made.Changed, 100)
		if err != nil || got != test.want {
			t.Errorf("%s: got %v (%v), want %v", name, got, err, test.want)
		}
	}
}
