// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"slices"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring/verify"
)

// mirrored is the content of this replica's mirror, and the delivered part of it. It is a value.
type mirrored struct {
	content    mirror.Content
	isVerified bool            // by the policy that counts now; only then is anything delivered
	problem    *mirror.Problem // the refs that are held back; nil: none is
	heldRefs   []string        // their names
	isLoaded   bool            // content is the disk's content
}

// isDelivered reports whether there is content, and the policy that counts has verified it. Content
// that it has not comes from before the policy was changed, or from a replica with another one.
func (m mirrored) isDelivered() bool { return m.content.Exists() && m.isVerified }

// holding keeps what the mirror holds. The policy is under the same lock, so that nothing is ever
// delivered by a policy that does not count any more.
//
// Only the goroutine that has the mirror's files for writing (see localMirror) replaces content by
// other content of the mirror. Two changes come without the files: applyVerified, which gives way
// to any other change, and discard.
type holding struct {
	changes *wake.Broadcast

	mu         sync.Mutex
	mirrored   mirrored // except isVerified, which read finds out
	version    uint64   // grows with every change of content
	verifier   *verify.Verifier
	unreported []string // refs that a new policy changed, and that no event has named
}

// read returns what the mirror holds.
func (h *holding) read() mirrored {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.mirrored
	m.isVerified = h.verifier.HasVerified(m.content)
	return m
}

func (h *holding) setLocked(c mirror.Content) {
	h.mirrored.content = c
	h.version++
	h.mirrored.problem, h.mirrored.heldRefs = h.verifier.Problem(c, h.mirrored.problem, time.Now())
	h.changes.Notify()
}

// load takes over what the disk holds when the process starts.
func (h *holding) load(c mirror.Content) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mirrored.isLoaded = true
	h.setLocked(c)
}

// replace takes over what was fetched or copied, and returns what the mirror held before.
func (h *holding) replace(c mirror.Content) (before mirror.Content) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before = h.mirrored.content
	h.setLocked(c)
	return before
}

// discard forgets the content, but not the epoch: no older one may be believed.
func (h *holding) discard() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.setLocked(mirror.Content{Epoch: h.mirrored.content.Epoch})
}

// amend applies a change of the files that moves no ref. The refs themselves may have been verified
// again meanwhile.
func (h *holding) amend(apply func(c *mirror.Content)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.mirrored.content
	apply(&c)
	h.setLocked(c)
}

// setPolicy makes another policy count. From here on nothing is delivered that it has not verified.
func (h *holding) setPolicy(v upstream.Verification) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.verifier = verify.New(v)
	h.changes.Notify()
}

// policy returns the policy that counts, what there is to verify, and the version of that for
// applyVerified.
func (h *holding) policy() (*verify.Verifier, mirror.Content, uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.verifier, h.mirrored.content, h.version
}

// applyVerified takes over a verification, unless the content of that version has been replaced
// meanwhile.
func (h *holding) applyVerified(verified mirror.Content, version uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.version != version {
		return false
	}
	h.unreported = slices.Concat(h.unreported, h.mirrored.content.Changed(verified))
	h.setLocked(verified)
	return true
}

// takeUnreported returns the refs that the next event has to name, once.
func (h *holding) takeUnreported() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	refs := h.unreported
	h.unreported = nil
	return refs
}
