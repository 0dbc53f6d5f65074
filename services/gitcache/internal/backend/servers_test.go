// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/testkit/giteatest"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

func definition(url string, c upstream.Credential) mirror.Definition {
	return mirror.Definition{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: url, Credential: c}}
}

func byKey(key []byte, knownHosts string) upstream.Credential {
	return upstream.Credential{
		Method: upstream.MethodSSH, PrivateKey: secret.Text(key), KnownHosts: knownHosts,
	}
}

func byPassword(user, password string) upstream.Credential {
	return upstream.Credential{
		Method: upstream.MethodBasic, Username: user, Password: secret.Text(password), AllowPlainHTTP: true,
	}
}

// pushTo returns what pushes to a URL or a folder.
func pushTo(remote string) func(*testing.T, *gittest.Repo) {
	return func(t *testing.T, local *gittest.Repo) {
		t.Helper()
		local.Git(t, "push", "--quiet", "--force", "--prune", remote, "refs/heads/*:refs/heads/*", "refs/tags/*:refs/tags/*")
	}
}

// otherHostKey is known_hosts with the server's name and another's key.
func otherHostKey(t *testing.T, knownHosts string) string {
	t.Helper()
	key, _ := newKey(t, "")
	host, _, _ := strings.Cut(knownHosts, " ")
	return host + " " + string(ssh.MarshalAuthorizedKey(key))
}

// httpBackend is git's own programs, behind HTTP with a password and an SSH server in this process.
func httpBackend(t *testing.T, open opener) {
	t.Parallel()
	server := gittest.New(t, gittest.WithBasicAuth("leat", "right"))
	var made atomic.Int64
	runServer(t, open, func(t *testing.T) origin {
		t.Helper()
		repo := server.Repo(t, fmt.Sprint("demo-", made.Add(1)))
		_, stranger := newKey(t, "")
		ssh := ways(server, repo)["ssh"]
		return origin{
			push: pushTo(repo.Dir()),
			ways: map[string]mirror.Definition{"http": definition(repo.URL(), byPassword("leat", "right")), "ssh": ssh},
			refused: map[string]refusal{
				"no credential":   {Definition: definition(repo.URL(), upstream.Credential{}), Reason: reason.UpstreamAuthRejected},
				"wrong password":  {Definition: definition(repo.URL(), byPassword("leat", "wrong")), Reason: reason.UpstreamAuthRejected},
				"foreign key":     {Definition: definition(ssh.URL, byKey(stranger, ssh.Credential.KnownHosts)), Reason: reason.UpstreamAuthRejected},
				"other host key":  {Definition: definition(ssh.URL, byKey(server.SSHPrivateKey(), otherHostKey(t, ssh.Credential.KnownHosts))), Reason: reason.UpstreamHostKeyRejected},
				"no such by http": {Definition: definition(server.URL()+"/nowhere.git", byPassword("leat", "right")), Reason: reason.RepositoryNotFound},
			},
		}
	})
}

// openSSH is OpenSSH's sshd.
func openSSH(t *testing.T, open opener) {
	t.Parallel()
	server, files := startSSHD(t), gittest.New(t)
	var made atomic.Int64
	runServer(t, open, func(t *testing.T) origin {
		t.Helper()
		repo := files.Repo(t, fmt.Sprint("it's demo ", made.Add(1)))
		at := server.url((&url.URL{Path: repo.Dir()}).EscapedPath())
		_, stranger := newKey(t, "")
		return origin{
			push: pushTo(repo.Dir()),
			ways: map[string]mirror.Definition{
				"ssh": definition(at, byKey(server.privateKey, server.knownHosts)),
			},
			refused: map[string]refusal{
				"foreign key":    {Definition: definition(at, byKey(stranger, server.knownHosts)), Reason: reason.UpstreamAuthRejected},
				"other host key": {Definition: definition(at, byKey(server.privateKey, otherHostKey(t, server.knownHosts))), Reason: reason.UpstreamHostKeyRejected},
				"unknown host":   {Definition: definition(at, byKey(server.privateKey, "elsewhere.example "+strings.SplitN(server.knownHosts, " ", 2)[1])), Reason: reason.UpstreamHostKeyRejected},
				"no such folder": {Definition: definition(at+"x", byKey(server.privateKey, server.knownHosts)), Reason: reason.RepositoryNotFound},
			},
		}
	})
	t.Run("passphrase", func(t *testing.T) {
		repo := files.Repo(t, "locked")
		first := repo.Commit(t, "main", map[string]string{"a": "1"})
		s := newSubject(t, open, "")
		s.def = definition(server.url(repo.Dir()), byKey(server.lockedKey, server.knownHosts))
		s.def.Credential.Passphrase = "another"
		if err := s.Check(s.def); err == nil {
			t.Error("got no error for a wrong passphrase")
		}
		s.def.Credential.Passphrase = passphrase
		s.fetch(t)
		s.wantRefs(t, map[string]string{"heads/main": first})
	})
}

// gitea is a whole Git host.
func gitea(t *testing.T, open opener) {
	t.Helper()
	server := giteatest.Start(t)
	public, key := newKey(t, "")
	server.AddKey(t, server.Owner, string(ssh.MarshalAuthorizedKey(public)))
	strangersPublic, strangersKey := newKey(t, "")
	server.AddKey(t, server.Stranger, string(ssh.MarshalAuthorizedKey(strangersPublic)))
	_, nobodysKey := newKey(t, "")
	known := hostKeyOf(t, server.SSHAddr)
	var made atomic.Int64
	runServer(t, open, func(t *testing.T) origin {
		t.Helper()
		path := server.Repository(t, fmt.Sprint("demo-", made.Add(1)))
		web, shell := server.CloneURL(path, giteatest.Account{}), server.SSHURL(path)
		own := byPassword(server.Owner.Name, server.Owner.Token)
		return origin{
			push: pushTo(server.CloneURL(path, server.Owner)),
			ways: map[string]mirror.Definition{
				"http": definition(web, own), "ssh": definition(shell, byKey(key, known)),
			},
			refused: map[string]refusal{
				"no credential":    {Definition: definition(web, upstream.Credential{}), Reason: reason.UpstreamAuthRejected},
				"wrong token":      {Definition: definition(web, byPassword(server.Owner.Name, "0123456789abcdef0123456789abcdef01234567")), Reason: reason.UpstreamAuthRejected},
				"a stranger":       {Definition: definition(web, byPassword(server.Stranger.Name, server.Stranger.Token)), Reason: reason.RepositoryNotFound},
				"no such by http":  {Definition: definition(server.URL+"/owner/nowhere.git", own), Reason: reason.RepositoryNotFound},
				"nobody's key":     {Definition: definition(shell, byKey(nobodysKey, known)), Reason: reason.UpstreamAuthRejected},
				"a stranger's key": {Definition: definition(shell, byKey(strangersKey, known)), Reason: reason.UpstreamAuthRejected},
				"other host key":   {Definition: definition(shell, byKey(key, otherHostKey(t, known))), Reason: reason.UpstreamHostKeyRejected},
			},
		}
	})
}

// hostKeyOf is the line of known_hosts that a person would note down after having looked.
func hostKeyOf(t *testing.T, address string) string {
	t.Helper()
	line := ""
	client, err := ssh.Dial("tcp", address, &ssh.ClientConfig{
		User: "nobody", Timeout: 10 * time.Second,
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			line = knownhosts.Line([]string{knownhosts.Normalize(address)}, key) + "\n"
			return nil
		},
	})
	if err == nil {
		_ = client.Close()
	}
	if line == "" {
		t.Fatalf("got %v instead of a host key", err)
	}
	return line
}
