// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// offer is what an upstream advertises: its branches, tags and HEAD.
type offer struct {
	refs          mirror.Refs
	head          string // what HEAD leads to; empty when there is none
	defaultBranch string
	capabilities  *capability.List
	agent         string
}

// readOffer reads an advertisement. An empty repository is an offer without refs.
func readOffer(r io.Reader, agent string) (*offer, error) {
	adv := packp.NewAdvRefs()
	err := adv.Decode(r)
	if unexpected, ok := errors.AsType[*packp.ErrUnexpectedData](err); ok && bytes.Contains(unexpected.Data, []byte("object-format=sha256")) {
		return nil, fmt.Errorf("%w: %w", errUnsupported, err)
	}
	if err != nil && !errors.Is(err, packp.ErrEmptyAdvRefs) {
		return nil, fmt.Errorf("read advertised refs: %w", err)
	}
	o := &offer{capabilities: adv.Capabilities, agent: agent}
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
	o.refs = mirror.NewRefs(refs)
	if adv.Head != nil && !adv.Head.IsZero() {
		o.head = adv.Head.String()
		o.defaultBranch = o.findDefaultBranch()
	}
	return o, nil
}

// mirrored tells whether a ref is a branch or a tag with a name that cannot do harm.
func mirrored(name string) bool {
	if !strings.HasPrefix(name, mirror.BranchPrefix) && !strings.HasPrefix(name, mirror.TagPrefix) {
		return false
	}
	return plumbing.ReferenceName(name).Validate() == nil && !strings.ContainsAny(name, "\n\x00")
}

// findDefaultBranch reads the symref capability. Servers without it leave it to a guess: a branch where HEAD is.
func (o *offer) findDefaultBranch() string {
	for _, pair := range o.capabilities.Get(capability.SymRef) {
		if target, ok := strings.CutPrefix(pair, "HEAD:"); ok {
			return target
		}
	}
	for _, name := range []string{"refs/heads/main", "refs/heads/master"} {
		if ref, ok := o.refs.Get(name); ok && ref.Object == o.head {
			return name
		}
	}
	for _, ref := range o.refs {
		if ref.Object == o.head && strings.HasPrefix(ref.Name, mirror.BranchPrefix) {
			return ref.Name
		}
	}
	return ""
}

// content is the mirror's, once it holds what is offered.
func (o *offer) content() mirror.Content {
	return mirror.Content{Refs: o.refs, Head: o.head, DefaultBranch: o.defaultBranch}
}

// equals tells whether a mirror holds exactly what is offered. What a ref's object leads to is settled already.
func (o *offer) equals(have mirror.Content) bool {
	return o.head == have.Head && o.defaultBranch == have.DefaultBranch &&
		slices.EqualFunc(o.refs, have.Refs, func(a, b mirror.Ref) bool { return a.Name == b.Name && a.Object == b.Object })
}

// objects are the ids to want, repetitions included.
func (o *offer) objects() []string {
	ids := make([]string, 0, len(o.refs)+1)
	for _, ref := range o.refs {
		ids = append(ids, ref.Object)
	}
	if o.head != "" {
		ids = append(ids, o.head)
	}
	return ids
}

// request asks for wants in one round: all haves at once, then done.
func (o *offer) request(wants, haves []plumbing.Hash) *packp.UploadPackRequest {
	req := packp.NewUploadPackRequestFromCapabilities(o.capabilities)
	// Thin packs lean on objects outside of them, which a pack on disk must not.
	req.Capabilities.Delete(capability.ThinPack)
	if o.capabilities.Supports(capability.NoProgress) {
		_ = req.Capabilities.Set(capability.NoProgress) // fails only for capabilities with arguments
	}
	if o.capabilities.Supports(capNoDone) && o.capabilities.Supports(capability.MultiACKDetailed) {
		_ = req.Capabilities.Set(capNoDone)
	}
	if o.capabilities.Supports(capability.Agent) {
		_ = req.Capabilities.Set(capability.Agent, strings.ReplaceAll(o.agent, " ", "-"))
	}
	req.Wants, req.Haves = wants, haves
	return req
}

// settle makes sure that every offered object has arrived, and marks tags that lead to something else than a commit: a
// tree or a blob is valid, but there is nothing to deliver from. Refs that did not move were settled before.
func (o *offer) settle(storage storer.EncodedObjectStorer, before mirror.Refs) error {
	kept := make([]mirror.Ref, 0, len(o.refs))
	for _, ref := range o.refs {
		if old, ok := before.Get(ref.Name); ok && old.Object == ref.Object {
			kept = append(kept, old)
			continue
		}
		_, err := object.GetCommit(storage, plumbing.NewHash(ref.Commit))
		switch {
		case err == nil:
			kept = append(kept, ref)
		case storage.HasEncodedObject(plumbing.NewHash(ref.Object)) == nil:
			ref.Commit = ""
			kept = append(kept, ref)
		default:
			return fmt.Errorf("%w: the pack lacks %s for %s", errBroken, ref.Object, ref.Name)
		}
	}
	o.refs = kept
	return nil
}
