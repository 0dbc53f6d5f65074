// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Offer is what an upstream advertises: its branches, tags and HEAD.
type Offer struct {
	Refs          mirror.Refs
	Head          string // what HEAD leads to; empty when there is none
	DefaultBranch string
	// Blobless: a request can leave out the content of files. It takes version 2 of the protocol.
	Blobless     bool
	capabilities *capability.List
	agent        string
}

// readOffer reads an advertisement. An empty repository is an offer without refs.
func readOffer(r io.Reader, agent string) (*Offer, error) {
	adv := packp.NewAdvRefs()
	err := adv.Decode(r)
	if unexpected, ok := errors.AsType[*packp.ErrUnexpectedData](err); ok && bytes.Contains(unexpected.Data, []byte("object-format=sha256")) {
		return nil, fmt.Errorf("%w: %w", errUnsupported, err)
	}
	if err != nil && !errors.Is(err, packp.ErrEmptyAdvRefs) {
		return nil, fmt.Errorf("read advertised refs: %w", err)
	}
	o := &Offer{capabilities: adv.Capabilities, agent: agent}
	refs := make([]mirror.Ref, 0, len(adv.References))
	for name, hash := range adv.References {
		if !mirrored(name) {
			continue
		}
		ref := mirror.Ref{Name: name, Object: hash.String(), Commit: hash.String()}
		if peeled, ok := adv.Peeled[name]; ok {
			ref.Commit = peeled.String()
		}
		refs = append(refs, ref)
	}
	o.Refs = mirror.NewRefs(refs)
	if adv.Head != nil && !adv.Head.IsZero() {
		o.Head = adv.Head.String()
		o.DefaultBranch = o.findDefaultBranch()
	}
	return o, nil
}

// mirrored reports whether a ref is a branch or a tag with a name that cannot do harm.
func mirrored(name string) bool {
	if !strings.HasPrefix(name, mirror.BranchPrefix) && !strings.HasPrefix(name, mirror.TagPrefix) {
		return false
	}
	return plumbing.ReferenceName(name).Validate() == nil && !strings.ContainsAny(name, "\n\x00")
}

// findDefaultBranch reads the symref capability. Servers without it, or where it names what is not
// mirrored, leave it to a guess.
func (o *Offer) findDefaultBranch() string {
	for _, pair := range o.capabilities.Get(capability.SymRef) {
		if target, ok := strings.CutPrefix(pair, "HEAD:"); ok && mirrored(target) {
			return target
		}
	}
	return o.guessDefaultBranch()
}

// guessDefaultBranch finds a branch where HEAD is.
func (o *Offer) guessDefaultBranch() string {
	for _, name := range []string{"refs/heads/main", "refs/heads/master"} {
		if ref, ok := o.Refs.Get(name); ok && ref.Object == o.Head {
			return name
		}
	}
	for _, ref := range o.Refs {
		if ref.Object == o.Head && strings.HasPrefix(ref.Name, mirror.BranchPrefix) {
			return ref.Name
		}
	}
	return ""
}

// Content is the mirror's, once it holds what is offered.
func (o *Offer) Content() mirror.Content {
	return mirror.Content{Refs: o.Refs, Head: o.Head, DefaultBranch: o.DefaultBranch}
}

// Equals reports whether a mirror holds exactly what is offered. What a ref's object leads to is
// settled already.
func (o *Offer) Equals(have mirror.Content) bool {
	return o.Head == have.Head && o.DefaultBranch == have.DefaultBranch &&
		slices.EqualFunc(o.Refs, have.Refs, func(a, b mirror.Ref) bool { return a.Name == b.Name && a.Object == b.Object })
}

// objects are the ids to want, repetitions included.
func (o *Offer) objects() []string {
	ids := make([]string, 0, len(o.Refs)+1)
	for _, ref := range o.Refs {
		ids = append(ids, ref.Object)
	}
	if o.Head != "" {
		ids = append(ids, o.Head)
	}
	return ids
}

// encode puts a request into the words of the protocol: all haves at once, then done.
func (o *Offer) encode(r Request) *packp.UploadPackRequest {
	req := packp.NewUploadPackRequestFromCapabilities(o.capabilities)
	if !r.Thin {
		req.Capabilities.Delete(capability.ThinPack)
	}
	if o.capabilities.Supports(capability.NoProgress) {
		_ = req.Capabilities.Set(capability.NoProgress) // fails only for capabilities with arguments
	}
	if o.capabilities.Supports(capNoDone) && o.capabilities.Supports(capability.MultiACKDetailed) {
		_ = req.Capabilities.Set(capNoDone)
	}
	if o.capabilities.Supports(capability.Agent) {
		_ = req.Capabilities.Set(capability.Agent, strings.ReplaceAll(o.agent, " ", "-"))
	}
	req.Wants, req.Haves = hashes(r.Wants), hashes(r.Haves)
	return req
}

func hashes(ids []string) []plumbing.Hash {
	all := make([]plumbing.Hash, len(ids))
	for i, id := range ids {
		all[i] = plumbing.NewHash(id)
	}
	return all
}
