// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// These tests are inside the package: what they feed comes from upstreams, and nothing outside can
// feed it without one.

// lines joins packet lines; an empty one is a flush.
func lines(texts ...string) []byte {
	var out bytes.Buffer
	for _, text := range texts {
		if text == "" {
			out.WriteString("0000")
			continue
		}
		fmt.Fprintf(&out, "%04x%s", len(text)+4, text)
	}
	return out.Bytes()
}

const (
	idA = "1111111111111111111111111111111111111111"
	idB = "2222222222222222222222222222222222222222"
)

// FuzzOffer looks for advertisements that are read as something no mirror may hold: names that do
// harm, refs that are out of order or twice there, invalid ids.
func FuzzOffer(f *testing.F) {
	const head = "# service=git-upload-pack\n"
	for _, seed := range [][]byte{
		lines(head, "", idA+" HEAD\x00multi_ack symref=HEAD:refs/heads/main agent=git/2.0\n", idA+" refs/heads/main\n",
			idB+" refs/tags/v1\n", idA+" refs/tags/v1^{}\n", ""),
		lines(head, "", strings.Repeat("0", 40)+" capabilities^{}\x00no-progress\n", ""),
		lines(idA+" refs/heads/main\x00\n", "shallow "+idB+"\n", ""),
		lines(head, "", idA+idA[:24]+" HEAD\x00object-format=sha256\n", ""),
		lines(head, "", idA+" refs/heads/../x\x00\n", idA+" refs/heads/a\n", idA+" refs/heads/a b\n", ""),
		lines("version 1\n", idA+" HEAD\x00symref=HEAD:refs/heads/x\x00\n", ""),
		lines("ERR access denied\n"),
		[]byte("zzzz"),
		{},
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		session := &Session{}
		o, err := session.readAdvertisement(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			if already := explain(err, mirror.Definition{}); already == nil {
				t.Error("an error that cannot be explained")
			}
			return
		}
		checkRefs(t, o)
		if o.Head != "" && !pack.IsName(o.Head) {
			t.Errorf("HEAD is %q", o.Head)
		}
		if o.DefaultBranch != "" && (o.Head == "" || !isMirrored(o.DefaultBranch)) {
			t.Errorf("default branch is %q, with HEAD %q", o.DefaultBranch, o.Head)
		}
		if len(o.Refs) > 0 {
			request := session.one.request(Request{Wants: []string{o.Refs[0].Object}}, []string{idB}, true)
			if !strings.HasSuffix(request, "0009done\n") {
				t.Errorf("the request is %q", request)
			}
		}
	})
}

func checkRefs(t *testing.T, o *Offer) {
	t.Helper()
	for i, ref := range o.Refs {
		if i > 0 && o.Refs[i-1].Name >= ref.Name {
			t.Errorf("ref %q comes after %q", ref.Name, o.Refs[i-1].Name)
		}
		if !pack.IsName(ref.Object) || !pack.IsName(ref.Commit) {
			t.Errorf("ref %+v has malformed ids", ref)
		}
		for element := range strings.SplitSeq(ref.Name, "/") {
			if element == "" || strings.HasPrefix(element, ".") || strings.HasSuffix(element, ".lock") {
				t.Errorf("ref is named %q", ref.Name)
			}
		}
		if !strings.HasPrefix(ref.Name, "refs/") || strings.ContainsAny(ref.Name, " \n\x00\x7f~^:?*[\\") || strings.Contains(ref.Name, "..") {
			t.Errorf("ref is named %q", ref.Name)
		}
	}
}

// FuzzMirroredNames compares the names of branches and tags that are mirrored with the ones that
// go-git finds valid.
func FuzzMirroredNames(f *testing.F) {
	for _, name := range []string{
		"main", "a/b.c", "é", "\xff", "", "/", "a/", "a//b", "@", "a/@", "a/@/b", "a@", "@{", "a@{b", ".a", "a/.b", "a.", "a./b", "a..b",
		"a.lock", "a.lock/b", ".lock", "a.lockb", "-a", "a/-b", "a-", "a\x00", "a\x1fb", "\x7f", "a b", "a\tb", "a\nb", "a~", "a^", "a:b",
		"a?", "a*", "a[b", `a\b`, "a]b{c}", "HEAD",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, prefix := range []string{mirror.BranchPrefix, mirror.TagPrefix} {
			want := plumbing.ReferenceName(prefix+name).Validate() == nil
			if got := isMirrored(prefix + name); got != want {
				t.Errorf("%q: got mirrored %t, want %t", prefix+name, got, want)
			}
		}
		if isMirrored(name) && !strings.HasPrefix(name, mirror.BranchPrefix) && !strings.HasPrefix(name, mirror.TagPrefix) {
			t.Errorf("%q is mirrored, and neither a branch nor a tag", name)
		}
	})
}

// FuzzVersion2 looks for answers in version 2 of the protocol that are read as refs which no mirror
// may hold, or without end.
func FuzzVersion2(f *testing.F) {
	const about = "ls-refs=unborn\n"
	two := append(lines("version 2\n", "agent=git/2.0\n", about, "fetch=shallow\n", "object-format=sha1\n", ""),
		lines(idA+" HEAD symref-target:refs/heads/main\n", idA+" refs/heads/main\n", idB+" refs/tags/v1 peeled:"+idA+"\n", "")...)
	for _, seed := range [][]byte{
		two,
		append(lines("# service=git-upload-pack\n", "", "version 2\n", about, "fetch\n", ""), lines(idA+" refs/heads/../x\n", "")...),
		append(lines("version 2\n", about, "fetch\n", ""), lines("packfile\n", "\x01PACK", "\x02progress", "\x03fatal: no\n", "")...),
		append(lines("version 2\n", about, "fetch\n", ""), lines("ERR no\n")...),
		append(lines("version 2\n", about, "fetch\n", ""), "00010002ffff"...),
		lines("version 2\n"),
		{},
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		session, r := &Session{wantsVersion2: true}, bufio.NewReader(bytes.NewReader(data))
		if _, err := session.readAdvertisement(r); err != nil || session.two == nil {
			return
		}
		rest, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if o, err := session.two.readRefs(&packets{r: bufio.NewReader(bytes.NewReader(rest)), limit: maxAdvertised}); err == nil {
			checkRefs(t, o)
			if o.DefaultBranch != "" && (o.Head == "" || !isMirrored(o.DefaultBranch)) {
				t.Errorf("default branch is %q, with HEAD %q", o.DefaultBranch, o.Head)
			}
		}
		sent, err := session.two.openPack(newReply(bytes.NewReader(rest), io.NopCloser(nil), true))
		if err != nil {
			return
		}
		if body, err := io.ReadAll(io.LimitReader(sent, int64(len(rest))+1)); len(body) > len(rest) {
			t.Errorf("got %d bytes of pack or more from %d (%v)", len(body), len(rest), err)
		}
	})
}

// FuzzAnswer looks for answers to wants and haves that are read without end, or that hand on bytes
// they do not have.
func FuzzAnswer(f *testing.F) {
	sent := "PACK\x00\x00\x00\x02\x00\x00\x00\x00"
	for _, seed := range [][]byte{
		append(lines("NAK\n"), sent...),
		append(lines("ACK "+idA+" common\n", "ACK "+idA+" ready\n", "NAK\n", "ACK "+idA+"\n"), sent...),
		append(lines("ACK "+idA+"\n", "ACK "+idA+"\n"), lines("\x01"+sent, "\x02progress\n", "")...),
		append(lines("NAK\n"), lines("\x03fatal: no\n")...),
		lines("ERR upload-pack: not our ref\n"),
		lines("ACK "+idA+" continue\n", "NAK\n"),
		lines("shallow "+idA+"\n", "", "NAK\n"),
		[]byte("0003"),
		[]byte("ffff"),
		{},
	} {
		f.Add(seed, true, true)
		f.Add(seed, false, false)
	}
	f.Fuzz(func(t *testing.T, data []byte, noDone, sideband bool) {
		v := &version1{capabilities: []string{capMultiAck}}
		if noDone {
			v.capabilities = append(v.capabilities, capNoDone)
		}
		if sideband {
			v.capabilities = append(v.capabilities, capSideband)
		}
		if got, err := v.readRound(bufio.NewReader(bytes.NewReader(data))); err == nil && len(got.common)*48 > len(data) {
			t.Errorf("got %d acknowledgements from %d bytes", len(got.common), len(data))
		}
		reader, err := v.openFinal(newReply(bytes.NewReader(data), io.NopCloser(nil), true))
		if err != nil {
			return
		}
		body, err := io.ReadAll(io.LimitReader(reader, int64(len(data))+1))
		if len(body) > len(data) {
			t.Errorf("got %d bytes of pack or more from %d (%v)", len(body), len(data), err)
		}
	})
}

// FuzzTarget looks for URLs that pass although they hold credentials, lead a shell or ssh astray,
// or name no host.
func FuzzTarget(f *testing.F) {
	for _, seed := range []string{
		"https://git.example.com/team/shop.git", "http://127.0.0.1:8080/a", "ssh://git@git.example.com:2222/a.git", "git@git.example.com:a/b.git",
		"https://user:password@git.example.com/a", "ssh://git:password@host/a", "ssh://-oProxyCommand=x/a", "git@-x:a", "file:///etc/passwd",
		"/etc/passwd", "C:\\a", "https://[::1]:1/a", "https://host/a?b#c", "git://host/a", "ssh://host/'$(id)'", "https://host:99999/",
		"ext::sh -c id", "host:~/a", "ssh://git@host:22/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseTarget(mirror.Definition{Definition: upstream.Definition{URL: text}})
		if err != nil {
			if _, ok := errors.AsType[*mirror.FieldError](err); !ok {
				t.Errorf("%q: got untyped %v", text, err)
			}
			return
		}
		e := at.endpoint
		switch {
		case e.Protocol != "http" && e.Protocol != "https" && e.Protocol != "ssh":
			t.Errorf("%q: the protocol is %q", text, e.Protocol)
		case e.Password != "" || (e.Protocol != "ssh" && e.User != ""):
			t.Errorf("%q: holds credentials", text)
		case e.Host == "" || strings.HasPrefix(e.Host, "-"):
			t.Errorf("%q: the host is %q", text, e.Host)
		case at.host() != strings.ToLower(at.host()):
			t.Errorf("%q: limits go by %q", text, at.host())
		case e.Protocol == "ssh" && unquote(shellQuote(e.Path)) != e.Path:
			t.Errorf("%q: the shell sees another path: %s", text, shellQuote(e.Path))
		}
	})
}

// unquote reads one word as a shell does; other text comes back as "".
func unquote(word string) string {
	var out strings.Builder
	for quoted := false; word != ""; word = word[1:] {
		switch c := word[0]; {
		case c == '\'':
			quoted = !quoted
		case quoted:
			out.WriteByte(c)
		case c == '\\' && len(word) > 1:
			word = word[1:]
			out.WriteByte(word[0])
		default:
			return ""
		}
	}
	return out.String()
}
