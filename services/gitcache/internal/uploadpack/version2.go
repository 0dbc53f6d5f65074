// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// version2Wanted asks for version 2 of the protocol, as a header and as an environment variable.
// Who does not know it answers in the first version.
const version2Wanted = "version=2"

// idForm are the names of objects, by SHA-1 and by SHA-256.
var idForm = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// peekable makes an answer one of which the beginning can be looked at.
func peekable(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, maxPacket+2*packetHeader+64) }

// isVersion2 looks ahead for how the answer begins, which over HTTP may be the name of the service.
func isVersion2(r *bufio.Reader) bool {
	for at := 0; ; {
		head, err := r.Peek(at + packetHeader)
		if err != nil {
			return false
		}
		n, err := strconv.ParseUint(string(head[at:]), 16, 16)
		switch {
		case err != nil || (n != 0 && n < packetHeader):
			return false
		case n == 0 && at == 0:
			return false
		case n == 0:
			at += packetHeader
			continue
		}
		line, err := r.Peek(at + int(n))
		if err != nil {
			return false
		}
		text := strings.TrimSpace(string(line[at+packetHeader:]))
		if !strings.HasPrefix(text, "# service=") {
			return text == "version 2"
		}
		at += int(n)
	}
}

// version2 is a conversation in version 2 of the protocol: commands, each with its answer.
type version2 struct {
	agent        string
	capabilities map[string]string
	// apart: every answer is a stream of its own, which ends with it.
	apart bool
	// send sends a command. Closing the returned body ends the reading of the answer.
	send func(ctx context.Context, command string) (io.ReadCloser, error)
}

// readVersion2 reads what an upstream says of itself.
func readVersion2(r *bufio.Reader, agent string) (*version2, error) {
	v := &version2{agent: agent, capabilities: map[string]string{}}
	left := maxCapabilities
	for begun := false; ; {
		line, m, err := readLine(r)
		left -= len(line) + packetHeader
		switch {
		case err != nil:
			return nil, fmt.Errorf("read capabilities: %w", err)
		case left < 0:
			return nil, fmt.Errorf("%w: more than %d bytes of capabilities", ErrBroken, maxCapabilities)
		case m == flush && begun:
			return v, v.check()
		case m != noMark || strings.HasPrefix(line, "# service="):
			continue
		}
		begun = true
		name, value, _ := strings.Cut(line, "=")
		v.capabilities[name] = value
	}
}

func (v *version2) check() error {
	if format := v.format(); format != "" && format != "sha1" && format != "sha256" {
		return fmt.Errorf("%w: object format %q", ErrBroken, format)
	}
	for _, command := range []string{"ls-refs", "fetch"} {
		if _, ok := v.capabilities[command]; !ok {
			return fmt.Errorf("%w: no command %s", ErrBroken, command)
		}
	}
	return nil
}

func (v *version2) format() string { return v.capabilities["object-format"] }

// filters reports whether the upstream can leave out some kinds of objects.
func (v *version2) filters() bool {
	return slices.Contains(strings.Fields(v.capabilities["fetch"]), "filter")
}

// command puts a command together.
func (v *version2) command(name string, arguments []string) string {
	var b strings.Builder
	writePacket(&b, "command="+name)
	if _, ok := v.capabilities["agent"]; ok {
		writePacket(&b, "agent="+strings.ReplaceAll(v.agent, " ", "-"))
	}
	if format := v.format(); format != "" {
		writePacket(&b, "object-format="+format)
	}
	b.WriteString(delimiterPacket)
	for _, argument := range arguments {
		writePacket(&b, argument)
	}
	b.WriteString(flushPacket)
	return b.String()
}

// listRefs asks for branches, tags and HEAD alone.
func (v *version2) listRefs(ctx context.Context) (_ *Offer, err error) {
	body, err := v.send(ctx, v.command("ls-refs", []string{
		"peel", "symrefs", "ref-prefix HEAD", "ref-prefix " + mirror.BranchPrefix, "ref-prefix " + mirror.TagPrefix,
	}))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	r := bufio.NewReader(io.LimitReader(body, maxAdvertised))
	o, refs := &Offer{agent: v.agent, Blobless: v.filters()}, []mirror.Ref(nil)
	for {
		line, m, err := readLine(r)
		if err != nil {
			return nil, fmt.Errorf("read listed refs: %w", err)
		}
		if m != noMark {
			break
		}
		ref, target, err := parseListed(line)
		switch {
		case err != nil:
			return nil, err
		case ref.Name == "HEAD":
			if o.Head = ref.Object; mirrored(target) {
				o.DefaultBranch = target
			}
		case mirrored(ref.Name):
			refs = append(refs, ref)
		}
	}
	if v.apart {
		discardRest(r)
	}
	o.Refs = mirror.NewRefs(refs)
	if o.Head != "" && o.DefaultBranch == "" {
		o.DefaultBranch = o.guessDefaultBranch()
	}
	return o, nil
}

// parseListed reads "<id> <name>", what a symbolic ref points to, and what a tag leads to.
func parseListed(line string) (ref mirror.Ref, target string, err error) {
	words := strings.Split(line, " ")
	if len(words) < 2 || !idForm.MatchString(words[0]) {
		return ref, "", &strayError{line, "a ref"}
	}
	ref = mirror.Ref{Name: words[1], Object: words[0], Commit: words[0]}
	for _, word := range words[2:] {
		if value, ok := strings.CutPrefix(word, "symref-target:"); ok {
			target = value
		}
		if value, ok := strings.CutPrefix(word, "peeled:"); ok && idForm.MatchString(value) {
			ref.Commit = value
		}
	}
	return ref, target, nil
}

// fetch asks for a pack in one round.
func (v *version2) fetch(ctx context.Context, req Request) (io.ReadCloser, error) {
	arguments := []string{"no-progress", "ofs-delta"}
	if req.Thin {
		arguments = append(arguments, "thin-pack")
	}
	if req.Blobless {
		arguments = append(arguments, "filter blob:none")
	}
	for _, id := range req.Wants {
		arguments = append(arguments, "want "+id)
	}
	for _, id := range req.Haves {
		arguments = append(arguments, "have "+id)
	}
	body, err := v.send(ctx, v.command("fetch", append(arguments, "done")))
	if err != nil {
		return nil, err
	}
	r := bufio.NewReader(body)
	if line, _, err := readLine(r); err != nil || line != "packfile" {
		if err == nil {
			err = &strayError{line, "a pack"}
		}
		return nil, errors.Join(err, body.Close())
	}
	return &packReader{r: r, Closer: body}, nil
}
