// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package signtest signs what tests publish: commits and tags of Git repositories with SSH keys as git
// does, artifacts of registries as cosign does, and archives of charts as Helm does.
package signtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/leatdev/leat/internal/testkit/gittest"
)

// Signer signs with its own key.
type Signer struct{ key ssh.Signer }

// New returns a signer with a new key.
func New(t testing.TB) *Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatalf("make key: %v", err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatalf("make key: %v", err)
	}
	return &Signer{key: key}
}

// PublicKey returns the key as a line of an allowed_signers file.
func (s *Signer) PublicKey() string {
	return "test@leat.invalid " + string(ssh.MarshalAuthorizedKey(s.key.PublicKey()))
}

// Commit adds a commit as [gittest.Repo.Commit] does, signed, and returns its id.
func (s *Signer) Commit(t testing.TB, repo *gittest.Repo, branch string, files map[string]string) string {
	t.Helper()
	unsigned := repo.Commit(t, branch, files)
	signed := put(t, repo, "commit", s.SignCommit(t, repo.GitRaw(t, "cat-file", "commit", unsigned)))
	repo.Git(t, "update-ref", "refs/heads/"+branch, signed, unsigned)
	return signed
}

// SignCommit returns a commit, in the form that Git stores, with a signature.
func (s *Signer) SignCommit(t testing.TB, raw string) string {
	t.Helper()
	head, body, _ := strings.Cut(raw, "\n\n")
	signature := strings.ReplaceAll(strings.TrimSpace(s.sign(t, raw)), "\n", "\n ")
	return head + "\ngpgsig " + signature + "\n\n" + body
}

// Tag makes a signed annotated tag.
func (s *Signer) Tag(t testing.TB, repo *gittest.Repo, name, revision string) {
	t.Helper()
	raw := "object " + repo.Resolve(t, revision) + "\ntype commit\ntag " + name +
		"\ntagger Leat Test <test@leat.invalid> 1767225600 +0000\n\n" + name + "\n"
	repo.Git(t, "update-ref", "refs/tags/"+name, put(t, repo, "tag", s.SignTag(t, raw)))
}

// SignTag returns an annotated tag, in the form that Git stores, with a signature.
func (s *Signer) SignTag(t testing.TB, raw string) string {
	t.Helper()
	return raw + s.sign(t, raw)
}

func (s *Signer) sign(t testing.TB, text string) string {
	t.Helper()
	signature, err := sshsig.Sign(strings.NewReader(text), s.key, sshsig.HashSHA512, "git")
	if err != nil {
		t.Fatalf("sign: %v", err)
	}
	return string(sshsig.Armor(signature))
}

func put(t testing.TB, repo *gittest.Repo, kind, raw string) string {
	t.Helper()
	return strings.TrimSpace(repo.GitInput(t, raw, "hash-object", "-w", "-t", kind, "--stdin"))
}
