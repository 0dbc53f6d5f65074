// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package provenance_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/provenance"
)

func TestPGPCommitsLikeGit(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"ed25519", "rsa3072", "nistp256"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			f := newForge(t)
			mine, other := f.pgpKey("mine@example.com", algorithm, "never", ""), f.pgpKey("other@example.com", algorithm, "never", "")
			f.pgpKeys = f.export(mine)

			f.judge(f.commit("-m", "unsigned"), false, false)
			f.signByPGP(mine, "")
			f.judge(f.commit("-S", "-m", "signed\n\nwith a body\r\nand CRLF\r\n"), true, true)
			f.signByPGP(other, "") // git's ring trusts both, our policy one
			f.judge(f.commit("-S", "-m", "by somebody else"), false, true)
			f.pgpKeys += f.export(other)
			f.judge(f.git("rev-parse", "HEAD"), true, true)
		})
	}
}

func TestSSHCommitsLikeGit(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"ed25519": {"-t", "ed25519"}, "ecdsa": {"-t", "ecdsa", "-b", "384"}, "rsa": {"-t", "rsa", "-b", "2048"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newForge(t)
			mine := f.sshKey("mine", args...)
			f.sshKey("other", args...)
			f.allowed = "c@example.com " + mine

			f.judge(f.commit("-m", "unsigned"), false, false)
			f.signBySSH("mine")
			f.judge(f.commit("-S", "-m", "signed\r\n"), true, true)
			f.signBySSH("other")
			f.judge(f.commit("-S", "-m", "by somebody else"), false, false)
		})
	}
}

func TestManipulatedCommits(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"pgp", "ssh"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			f := newForge(t)
			if format == "pgp" {
				key := f.pgpKey("mine@example.com", "ed25519", "never", "")
				f.pgpKeys = f.export(key)
				f.signByPGP(key, "")
			} else {
				f.allowed = "* " + f.sshKey("mine", "-t", "ed25519")
				f.signBySSH("mine")
			}
			first, second := f.raw("commit", f.commit("-S", "-m", "one")), f.raw("commit", f.commit("-S", "-m", "two"))
			signature := headerOf(first)
			for name, raw := range map[string]string{
				"content":                    strings.Replace(first, "\n\none", "\n\nONE", 1),
				"trailing blank":             first + " ",
				"another commit's signature": strings.Replace(second, headerOf(second), signature, 1),
				"signature in the message":   strings.Replace(first, signature, "", 1) + "\n" + signature,
				"half a signature":           strings.Replace(first, signature, signature[:len(signature)/2]+"\n", 1),
				"an added parent":            strings.Replace(first, "\nauthor", "\nparent "+f.git("rev-parse", "HEAD")+"\nauthor", 1),
			} {
				t.Run(name, func(t *testing.T) { f.with(t).judge(f.put("commit", raw), false, false) })
			}
			for name, raw := range map[string]string{
				// Git joins them, and what verifies the result decides; one that signs once is
				// enough for everybody else.
				"two headers":              strings.Replace(first, signature, signature+signature, 1),
				"text behind the armor":    strings.Replace(first, signature, signature+" tail\n", 1),
				"text before the armor":    strings.Replace(first, "gpgsig -----", "gpgsig head\n -----", 1),
				"a header before the tree": signature + strings.Replace(first, signature, "", 1),
				"two trees":                strings.Replace(first, "tree ", "parent 0\ntree ", 1),
			} {
				t.Run(name, func(t *testing.T) {
					if err := f.policy().VerifyCommit([]byte(raw), time.Now()); err == nil {
						t.Error("got it accepted, want it rejected")
					}
				})
			}
			t.Run("signature of the other hash", func(t *testing.T) {
				raw := strings.Replace(first, signature, strings.Replace(signature, "gpgsig", "gpgsig-sha256", 1), 1)
				f.with(t).judge(f.put("commit", raw), false, false)
				f.judge(f.put("commit", strings.Replace(first, signature, signature+"gpgsig-sha256 other\n hash\n", 1)), true, true)
			})
		})
	}
}

// with reports to a subtest.
func (f *forge) with(t *testing.T) *forge {
	t.Helper()
	sub := *f
	sub.t = t
	return &sub
}

// headerOf returns the header of a commit's signature, its continuation lines included.
func headerOf(raw string) string {
	_, rest, _ := strings.Cut(raw, "\ngpgsig ")
	const last = " -----END "
	end := strings.Index(rest, last)
	end += strings.Index(rest[end:], "\n") + 1
	return "gpgsig " + rest[:end]
}

func TestMergeOfASignedTag(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	key := f.pgpKey("mine@example.com", "ed25519", "never", "")
	f.pgpKeys = f.export(key)
	f.signByPGP(key, "")
	f.git("checkout", "--quiet", "-b", "side")
	f.commit("-m", "on the side")
	f.git("tag", "-s", "-m", "a tag to merge", "v1")
	f.git("checkout", "--quiet", "main")
	f.commit("-m", "meanwhile")

	f.git("merge", "--quiet", "-S", "-m", "merge", "v1")
	signed := f.git("rev-parse", "HEAD")
	if !strings.Contains(f.raw("commit", signed), "\nmergetag object ") {
		t.Fatal("the merge has no mergetag header")
	}
	f.judge(signed, true, true)

	f.git("reset", "--quiet", "--hard", "HEAD^")
	f.git("merge", "--quiet", "--no-gpg-sign", "-m", "merge", "v1") // the tag's signature is none of the merge
	f.judge(f.git("rev-parse", "HEAD"), false, false)
}

func TestPGPKeyTimes(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	key := f.pgpKey("old@example.com", "ed25519", "1y", "20200101T000000")
	f.pgpKeys = f.export(key)

	f.signByPGP(key, "20200601T000000")
	during := f.commit("-S", "-m", "while the key was valid")
	f.judge(during, true, false) // git asks about today

	// Prolonged: the key's newest signature of its own is younger than what it signed.
	expired := f.pgpKeys
	f.run("", "gpg", "--batch", "--passphrase", "", "--quick-set-expire", key, "never")
	f.pgpKeys = f.export(key)
	f.judge(during, true, true)
	f.signByPGP(key, "20220601T000000")
	after := f.commit("-S", "-m", "after the key would have expired")
	f.judge(after, true, true)
	f.pgpKeys = expired
	f.judge(after, false, true) // git's ring has the prolonged one
	f.judge(during, true, true)
}

func TestRevokedPGPKeys(t *testing.T) {
	t.Parallel()
	for reason, before := range map[string]bool{"0": false, "1": false, "2": true, "3": true} { // none, compromised, superseded, retired
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			f := newForge(t)
			key := f.pgpKey("mine@example.com", "ed25519", "never", "20240101T000000")
			f.signByPGP(key, "20240601T000000")
			early := f.commit("-S", "-m", "early")
			f.signByPGP(key, "20250601T000000")
			late := f.commit("-S", "-m", "late")
			f.pgpKeys = f.export(key)
			f.judge(late, true, true)

			answers := "y\n" + reason + "\n\ny\n"
			certificate := f.run(answers, "gpg", "--faked-system-time", "20250101T000000", "--no-tty", "--command-fd", "0", "--status-fd", "2",
				"--pinentry-mode", "loopback", "--passphrase", "", "--gen-revoke", key)
			begin := strings.Index(certificate, "-----BEGIN PGP")
			end := strings.Index(certificate, "-----END PGP")
			end += strings.Index(certificate[end:], "\n") + 1
			f.run(certificate[begin:end], "gpg", "--batch", "--import")
			f.pgpKeys = f.export(key)
			f.judge(early, before, false)
			f.judge(late, false, false)
		})
	}
}

func TestSubkeysSign(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	key := f.pgpKey("mine@example.com", "ed25519", "never", "")
	f.run("", "gpg", "--batch", "--passphrase", "", "--quick-add-key", key, "ed25519", "sign", "never")
	f.run("", "gpg", "--batch", "--passphrase", "", "--quick-add-key", key, "cv25519", "encr", "never")
	f.pgpKeys = f.export(key)
	f.signByPGP(key, "")
	id := f.commit("-S", "-m", "by the subkey")
	f.judge(id, true, true)
}

func TestTwoPGPSignaturesInOneBlock(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	one, two := f.pgpKey("one@example.com", "ed25519", "never", ""), f.pgpKey("two@example.com", "ed25519", "never", "")
	f.pgpKeys = f.export(one)
	unsigned := f.raw("commit", f.commit("-m", "both"))
	armored := f.run(unsigned, "gpg", "--batch", "--armor", "--detach-sign", "-u", one, "-u", two)
	f.judge(f.put("commit", insert(unsigned, armored)), false, false)
}

// insert puts a signature into a commit as git does.
func insert(unsigned, armored string) string {
	head, body, _ := strings.Cut(unsigned, "\n\n")
	return head + "\ngpgsig " + strings.ReplaceAll(strings.TrimSuffix(armored, "\n"), "\n", "\n ") + "\n\n" + body
}

func TestSSHNamespacesAndTimes(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	key := f.sshKey("mine", "-t", "ed25519")
	f.signBySSH("mine")
	f.env = append(f.env, "GIT_COMMITTER_DATE=2024-06-01T12:00:00Z")
	id := f.commit("-S", "-m", "in June 2024")
	for options, accepted := range map[string]bool{
		``:                               true,
		`namespaces="git" `:              true,
		`namespaces="file,git" `:         true,
		`namespaces="g?t*" `:             true,
		`namespaces="file" `:             false,
		`namespaces="*,!git" `:           false,
		`valid-after="20240601Z" `:       true,
		`valid-after="20240602Z" `:       false,
		`valid-after="202406011200Z" `:   true,
		`valid-after="20240601120001Z" `: false,
		`valid-before="20240602Z" `:      true,
		`valid-before="20240601Z" `:      false,
		`valid-after="20240101",namespaces="git",valid-before="20250101" `: true,
	} {
		f.allowed = "a@example.com,*@example.org " + options + key
		t.Run(options, func(t *testing.T) { f.with(t).judge(id, accepted, accepted) })
	}
	f.allowed = "# quoted principals\n\"c@example.com\" " + key + "a@example.com namespaces=\"file\" " + key
	f.judge(id, true, true)

	f.allowed = key // bare: not a thing for git
	f.judge(id, true, false)
}

func TestSSHSignatureForAnotherPurpose(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	f.allowed = "* " + f.sshKey("mine", "-t", "ed25519")
	unsigned := f.raw("commit", f.commit("-m", "unsigned"))
	for namespace, accepted := range map[string]bool{"git": true, "file": false} {
		for _, hash := range []string{"sha256", "sha512"} {
			armored := f.run(unsigned, "ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-O", "hashalg="+hash, "-f", f.path("mine"))
			f.judge(f.put("commit", insert(unsigned, armored)), accepted, accepted)
		}
	}
}

func TestTagsLikeGit(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"pgp", "ssh"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			f := newForge(t)
			if format == "pgp" {
				key := f.pgpKey("mine@example.com", "ed25519", "never", "")
				f.pgpKeys = f.export(key)
				f.signByPGP(key, "")
			} else {
				f.allowed = "* " + f.sshKey("mine", "-t", "ed25519")
				f.signBySSH("mine")
			}
			f.git("tag", "-a", "-m", "unsigned", "v0")
			f.git("tag", "-s", "-m", "signed\n\n-----BEGIN nothing\n", "rel/v1")
			f.judgeTag("v0", "v0", false)
			f.judgeTag("rel/v1", "rel/v1", true)

			raw := f.raw("tag", "rel/v1")
			f.judgeTag(f.put("tag", strings.Replace(raw, "signed", "Signed", 1)), "rel/v1", false)
			f.judgeTag(f.put("tag", strings.Replace(raw, "tag rel/v1", "tag rel/v2", 1)), "rel/v2", false)
			err := f.policy().VerifyTag([]byte(raw), "rel/v2", time.Now())
			if err == nil || !strings.Contains(err.Error(), `"rel/v1"`) {
				t.Errorf("under another name: got %v, want a rejection that names rel/v1", err)
			}
			if err := f.policy().VerifyTag([]byte(raw+"text behind the signature\n"), "rel/v1", time.Now()); err == nil {
				t.Error("text behind the signature: got it accepted")
			}
			if err := f.policy().VerifyCommit([]byte(raw), time.Now()); err == nil {
				t.Error("a tag as a commit: got it accepted")
			}
		})
	}
}

func (f *forge) judgeTag(revision, name string, want bool) {
	f.t.Helper()
	err := f.policy().VerifyTag([]byte(f.raw("tag", revision)), name, time.Now())
	if (err == nil) != want {
		f.t.Errorf("tag %s: got %v, want accepted: %t", name, err, want)
	}
	if got := f.gitAccepts("tag", revision); got != want {
		f.t.Errorf("tag %s: git: got accepted: %t, want %t", name, got, want)
	}
}

func TestSHA256Repository(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	f.dir = t.TempDir()
	f.git("init", "--quiet", "--object-format=sha256", "--initial-branch=main")
	f.git("config", "gpg.ssh.allowedSignersFile", f.path("allowed"))
	f.allowed = "* " + f.sshKey("mine", "-t", "ed25519")
	f.signBySSH("mine")
	f.judge(f.commit("-S", "-m", "signed"), true, true)
	f.judge(f.commit("-m", "unsigned"), false, false)
}

func FuzzVerify(f *testing.F) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ9OF5kXFNqjZeDCAjI6cYwt1SGC8aZDXHUYxqOXFcCX"
	policy, err := provenance.New(upstream.Verification{Mode: upstream.ModeTagAndCommit, SSHAllowedSigners: key})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@b> 1 +0000\ncommitter C <c@d> 2 +0000\n" +
		"gpgsig -----BEGIN SSH SIGNATURE-----\n U1NIU0lH\n -----END SSH SIGNATURE-----\n\nmessage\n"))
	f.Add([]byte("tree 0\nmergetag object 1\n type commit\n tag v1\n \n -----BEGIN PGP SIGNATURE-----\n\n"))
	f.Add([]byte("object 1\ntype commit\ntag v1\ntagger T <t@u> 3 +0000\n\nx\n-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----\n"))
	f.Add([]byte("gpgsig \n \n\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := string(raw)
		if policy.VerifyCommit(raw, time.Now()) == nil || policy.VerifyTag(raw, "v1", time.Now()) == nil {
			t.Error("accepted what nobody signed")
		}
		if string(raw) != before {
			t.Error("the object was written to")
		}
	})
}
