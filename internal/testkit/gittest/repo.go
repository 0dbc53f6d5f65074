// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gittest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	authorName  = "Leat Test"
	authorEmail = "test@leat.invalid"
	// firstCommit is the time of a repository's first commit, in Unix seconds; each further one is
	// a second later.
	firstCommit = 1767225600
)

// Repo is a bare repository on a [Server]. Its default branch is main, and pushing is allowed. The
// same calls in the same order always make the same commits, with the same ids.
type Repo struct {
	server *Server
	name   string

	mu      sync.Mutex // orders commits
	commits int
}

// Repo makes an empty repository. The name may have slashes ("group/demo") and comes without
// ".git".
func (s *Server) Repo(t testing.TB, name string) *Repo {
	t.Helper()
	r := &Repo{server: s, name: name}
	if err := os.MkdirAll(s.dir(name), 0o750); err != nil {
		t.Fatalf("make repository %q: %v", name, err)
	}
	r.Git(t, "init", "--quiet", "--bare", "--initial-branch=main")
	r.Git(t, "config", "http.receivepack", "true")
	return r
}

func (s *Server) dir(name string) string {
	return filepath.Join(s.root, filepath.FromSlash(name)+".git")
}

// URL returns where to clone the repository from over HTTP.
func (r *Repo) URL() string {
	return r.server.URL() + "/" + r.name + ".git"
}

// SSHURL returns where to clone the repository from over SSH; see [Server.SSHPrivateKey].
func (r *Repo) SSHURL() string {
	return "ssh://git@" + r.server.SSHAddr() + "/" + r.name + ".git"
}

// Dir returns the repository's folder.
func (r *Repo) Dir() string {
	return r.server.dir(r.name)
}

// File is a change of one path in a commit. Make one with [Text], [Executable], [Symlink] or
// [Deleted].
type File struct {
	mode    string // empty: the path is deleted
	content string
}

// Text returns a regular file.
func Text(content string) File { return File{mode: "100644", content: content} }

// Executable returns a regular file with the executable bit.
func Executable(content string) File { return File{mode: "100755", content: content} }

// Symlink returns a symbolic link.
func Symlink(target string) File { return File{mode: "120000", content: target} }

// Deleted removes a file, or a folder with its content.
func Deleted() File { return File{} }

// Commit adds a commit to the branch that writes these regular files and keeps all others, and
// returns its id. It creates the branch if necessary.
func (r *Repo) Commit(t testing.TB, branch string, files map[string]string) string {
	t.Helper()
	changes := make(map[string]File, len(files))
	for name, content := range files {
		changes[name] = Text(content)
	}
	return r.CommitFiles(t, branch, changes)
}

// CommitFiles is Commit for every kind of change.
func (r *Repo) CommitFiles(t testing.TB, branch string, changes map[string]File) string {
	t.Helper()
	parent := ""
	if r.Resolve(t, "refs/heads/"+branch) != "" {
		parent = "refs/heads/" + branch + "^0"
	}
	return r.write(t, branch, parent, changes)
}

// ForcePush replaces the branch by a single unrelated commit with only these files, and returns its
// id.
func (r *Repo) ForcePush(t testing.TB, branch string, changes map[string]File) string {
	t.Helper()
	return r.write(t, branch, "", changes)
}

// write makes one commit with git fast-import, which needs neither a worktree nor an index.
func (r *Repo) write(t testing.TB, branch, parent string, changes map[string]File) string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commits++
	var script bytes.Buffer
	message := "Commit " + strconv.Itoa(r.commits)
	fmt.Fprintf(&script, "commit refs/heads/%s\ncommitter %s <%s> %d +0000\ndata %d\n%s\n",
		branch, authorName, authorEmail, firstCommit+r.commits-1, len(message), message)
	if parent != "" {
		fmt.Fprintf(&script, "from %s\n", parent)
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		change := changes[name]
		if change.mode == "" {
			fmt.Fprintf(&script, "D %s\n", quote(name))
			continue
		}
		fmt.Fprintf(&script, "M %s inline %s\ndata %d\n%s\n", change.mode, quote(name), len(change.content), change.content)
	}
	r.Import(t, &script)
	return r.Resolve(t, "refs/heads/"+branch)
}

// Import runs git fast-import on a script, which is the fast way to make many objects or refs.
func (r *Repo) Import(t testing.TB, script io.Reader) {
	t.Helper()
	r.git(t, script, "fast-import", "--quiet", "--force")
}

// quote writes a path in the form that fast-import reads, whatever bytes it has.
func quote(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(name) + `"`
}

// Tag makes a lightweight tag, or moves it.
func (r *Repo) Tag(t testing.TB, name, revision string) {
	t.Helper()
	r.Git(t, "tag", "--force", name, revision)
}

// AnnotatedTag makes a tag object, or replaces it.
func (r *Repo) AnnotatedTag(t testing.TB, name, revision string) {
	t.Helper()
	r.Git(t, "tag", "--force", "--annotate", "--message", "Tag "+name, name, revision)
}

// DeleteBranch removes a branch.
func (r *Repo) DeleteBranch(t testing.TB, name string) {
	t.Helper()
	r.Git(t, "update-ref", "-d", "refs/heads/"+name)
}

// Resolve returns the id of the commit that a revision names, or "" if there is none.
func (r *Repo) Resolve(t testing.TB, revision string) string {
	t.Helper()
	out, err := r.server.run(context.WithoutCancel(t.Context()), r.Dir(), nil,
		"rev-parse", "--verify", "--quiet", revision+"^{commit}")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// Git runs any git command in the repository's folder and returns its output, without white space
// around it.
func (r *Repo) Git(t testing.TB, args ...string) string {
	t.Helper()
	return strings.TrimSpace(r.git(t, nil, args...))
}

// GitRaw is Git with the output unchanged.
func (r *Repo) GitRaw(t testing.TB, args ...string) string {
	t.Helper()
	return r.git(t, nil, args...)
}

// GitInput is GitRaw with an input.
func (r *Repo) GitInput(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	return r.git(t, strings.NewReader(stdin), args...)
}

func (r *Repo) git(t testing.TB, stdin io.Reader, args ...string) string {
	t.Helper()
	out, err := r.server.run(context.WithoutCancel(t.Context()), r.Dir(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
