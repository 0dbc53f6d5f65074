// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// version2 writes and reads the messages of version 2 of the protocol: commands, each with its
// answer. The server begins with its capabilities.
type version2 struct {
	capabilities map[string]string
}

// readCapabilities reads the lines behind "version 2".
func (v *version2) readCapabilities(p *packets) error {
	v.capabilities = map[string]string{}
	for {
		line, m, err := p.next()
		if err != nil {
			return fmt.Errorf("read capabilities: %w", err)
		}
		if m != noMark {
			return v.check()
		}
		name, value, _ := strings.Cut(line, "=")
		v.capabilities[name] = value
	}
}

// check refuses a server that this client cannot use.
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

// command returns the message of a command.
func (v *version2) command(name string, arguments ...string) string {
	var b strings.Builder
	writePacket(&b, "command="+name)
	if _, ok := v.capabilities["agent"]; ok {
		writePacket(&b, "agent="+agentWord)
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

// listRequest asks for branches, tags and HEAD alone.
func (v *version2) listRequest() string {
	return v.command("ls-refs", "peel", "symrefs", "ref-prefix HEAD", "ref-prefix "+mirror.BranchPrefix, "ref-prefix "+mirror.TagPrefix)
}

// readRefs reads the answer to listRequest. A server may list refs that were not asked for: the
// offer drops them.
func (v *version2) readRefs(p *packets) (*Offer, error) {
	o := &Offer{Blobless: slices.Contains(strings.Fields(v.capabilities["fetch"]), "filter")}
	for {
		line, m, err := p.next()
		if err == nil && m == noMark {
			err = addListed(o, line)
		}
		if err != nil {
			return nil, fmt.Errorf("read listed refs: %w", err)
		}
		if m != noMark {
			return o.complete(), nil
		}
	}
}

// addListed reads "<id> <name>", the target of a symbolic ref, and the object that a tag leads to.
func addListed(o *Offer, line string) error {
	words := strings.Split(line, " ")
	if len(words) < 2 || !pack.IsName(words[0]) {
		return &strayError{line, "a ref"}
	}
	ref := mirror.Ref{Name: words[1], Object: words[0], Commit: words[0]}
	for _, word := range words[2:] {
		if target, ok := strings.CutPrefix(word, "symref-target:"); ok && ref.Name == "HEAD" {
			o.pointHead(target)
		}
		if id, ok := strings.CutPrefix(word, "peeled:"); ok && pack.IsName(id) {
			ref.Commit = id
		}
	}
	o.add(ref)
	return nil
}

// fetchRequest asks for a pack in one round.
func (v *version2) fetchRequest(r Request) string {
	arguments := []string{"no-progress", "ofs-delta"}
	if r.Thin {
		arguments = append(arguments, "thin-pack")
	}
	if r.Blobless {
		arguments = append(arguments, "filter blob:none")
	}
	for _, id := range r.Wants {
		arguments = append(arguments, "want "+id)
	}
	for _, id := range r.Haves {
		arguments = append(arguments, "have "+id)
	}
	return v.command("fetch", append(arguments, "done")...)
}

// openPack returns the pack that answers fetchRequest. Closing the pack closes the answer.
func (v *version2) openPack(answer reply) (io.ReadCloser, error) {
	p := packets{r: answer.Reader, limit: maxPacket}
	if line, _, err := p.next(); err != nil || line != "packfile" {
		if err == nil {
			err = &strayError{line, "a pack"}
		}
		return nil, answer.fail(err)
	}
	return &sideband{r: answer.Reader, Closer: answer}, nil
}
