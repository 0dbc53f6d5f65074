// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package provenance_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/provenance"
)

// forge makes commits and tags with the git command, gpg and ssh-keygen, and asks git what it
// thinks of them.
type forge struct {
	t    *testing.T
	dir  string
	home string // of gpg, and for keys
	env  []string

	pgpKeys string // who may sign, by our policy and git's
	allowed string
}

func newForge(t *testing.T) *forge {
	t.Helper()
	f := &forge{t: t, dir: t.TempDir()}
	home := t.TempDir()
	f.home = home
	f.env = []string{
		"HOME=" + home, "GNUPGHOME=" + home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "TZ=UTC",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com",
	}
	t.Cleanup(func() {
		cmd := exec.Command("gpgconf", "--kill", "all") // the agent that gpg leaves behind
		cmd.Env = f.env
		_ = cmd.Run()
	})
	f.git("init", "--quiet", "--initial-branch=main")
	f.git("config", "gpg.ssh.allowedSignersFile", f.path("allowed"))
	f.git("commit", "--quiet", "--allow-empty", "-m", "first")
	return f
}

func (f *forge) path(name string) string { return filepath.Join(f.home, name) }

func (f *forge) write(name, text string) string {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return f.path(name)
}

func (f *forge) try(stdin, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = f.dir, f.env, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (f *forge) run(stdin, name string, args ...string) string {
	f.t.Helper()
	out, err := f.try(stdin, name, args...)
	if err != nil {
		f.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return out
}

func (f *forge) git(args ...string) string {
	f.t.Helper()
	return strings.TrimSpace(f.run("", "git", args...))
}

// pgpKey makes a key and returns its fingerprint; when is gpg's idea of now, "" for the present.
func (f *forge) pgpKey(user, algorithm, expire, when string) string {
	f.t.Helper()
	args := append(fake(when), "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", user, algorithm, "sign", expire)
	f.run("", "gpg", args...)
	for line := range strings.SplitSeq(f.run("", "gpg", "--batch", "--with-colons", "--list-keys", user), "\n") {
		if rest, ok := strings.CutPrefix(line, "fpr:::::::::"); ok {
			return strings.TrimSuffix(rest, ":")
		}
	}
	f.t.Fatalf("no key of %s", user)
	return ""
}

func fake(when string) []string {
	if when == "" {
		return nil
	}
	return []string{"--faked-system-time", when}
}

func (f *forge) export(fingerprint string) string {
	f.t.Helper()
	return f.run("", "gpg", "--batch", "--armor", "--export", fingerprint)
}

// signByPGP makes git sign with a PGP key, at what gpg takes for now.
func (f *forge) signByPGP(fingerprint, when string) {
	f.t.Helper()
	wrapper := f.write("gpg-wrapper", fmt.Sprintf("#!/bin/sh\nexec gpg --batch %s \"$@\"\n", strings.Join(fake(when), " ")))
	if err := os.Chmod(wrapper, 0o700); err != nil {
		f.t.Fatal(err)
	}
	f.git("config", "gpg.format", "openpgp")
	f.git("config", "gpg.program", wrapper)
	f.git("config", "user.signingKey", fingerprint)
}

// sshKey makes a key and returns its public half.
func (f *forge) sshKey(name string, args ...string) string {
	f.t.Helper()
	f.run("", "ssh-keygen", append([]string{"-q", "-N", "", "-C", name, "-f", f.path(name)}, args...)...)
	public, err := os.ReadFile(f.path(name) + ".pub")
	if err != nil {
		f.t.Fatal(err)
	}
	return string(public)
}

func (f *forge) signBySSH(name string) {
	f.t.Helper()
	f.git("config", "gpg.format", "ssh")
	f.git("config", "user.signingKey", f.path(name)+".pub")
}

func (f *forge) commit(args ...string) string {
	f.t.Helper()
	f.git(append([]string{"commit", "--quiet", "--allow-empty"}, args...)...)
	return f.git("rev-parse", "HEAD")
}

// raw returns an object as it is.
func (f *forge) raw(kind, id string) string {
	f.t.Helper()
	return f.run("", "git", "cat-file", kind, id)
}

// put makes an object of raw bytes.
func (f *forge) put(kind, raw string) string {
	f.t.Helper()
	return strings.TrimSpace(f.run(raw, "git", "hash-object", "-w", "-t", kind, "--literally", "--stdin"))
}

// gitAccepts returns git's verdict. It trusts the keys of gpg's ring, and of the allowed_signers
// file.
func (f *forge) gitAccepts(kind, id string) bool {
	f.t.Helper()
	f.write("allowed", f.allowed)
	f.git("config", "gpg.program", "gpg")
	_, err := f.try("", "git", "verify-"+kind, id)
	return err == nil
}

func (f *forge) policy() *provenance.Policy {
	f.t.Helper()
	p, err := provenance.New(upstream.Verification{Mode: upstream.ModeTagAndCommit, PGPKeys: f.pgpKeys, SSHAllowedSigners: f.allowed})
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// judge holds our verdict against git's.
func (f *forge) judge(id string, ours, gits bool) {
	f.t.Helper()
	err := f.policy().VerifyCommit([]byte(f.raw("commit", id)), time.Now())
	if (err == nil) != ours {
		f.t.Errorf("got %v, want accepted: %t", err, ours)
	}
	if got := f.gitAccepts("commit", id); got != gits {
		f.t.Errorf("git: got accepted: %t, want %t", got, gits)
	}
}
