// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// handover is how objects leave a service for others that want them.
type handover struct{ r *run }

// dropTransferred removes objects from the inventory that other services have taken over. This
// holds even if the rest of the run fails.
func (h handover) dropTransferred(ctx context.Context) error {
	before := h.r.record.Objects.Len()
	for _, o := range h.r.record.Objects.Objects() {
		if owner := h.otherHolder(o.Key); owner != "" {
			h.r.leave(ctx, o, belongsTo(owner))
		}
	}
	if h.r.record.Objects.Len() == before {
		return nil
	}
	return h.r.store(ctx)
}

// otherHolder returns the other service that has claimed and listed an object, or "".
func (h handover) otherHolder(k inventory.Key) string {
	owner := h.r.x.params.Ownership.Owner(k)
	if owner == h.r.Name || !h.r.x.params.Ownership.Holds(owner, k) {
		return ""
	}
	return owner
}

// offer removes the objects that another service lists now, keeps the ones that another service of
// the plan will take, and returns the rest.
func (h handover) offer(ctx context.Context, gone []inventory.Object) (rest []inventory.Object, err error) {
	lent := map[inventory.Key]bool{}
	for _, o := range gone {
		if owner := h.otherHolder(o.Key); owner != "" {
			h.r.leave(ctx, o, belongsTo(owner))
			continue
		}
		owner := h.r.x.params.Ownership.Owner(o.Key)
		hasClaimant, err := h.r.x.params.Ownership.HasClaimant(ctx, h.r.Member, o.Key)
		switch {
		case err != nil:
			return nil, err
		case hasClaimant:
			lent[o.Key] = true
		default:
			h.r.x.params.Ownership.Reassign(o.Key, owner, h.r.Name) // from a service that no longer wants it
			rest = append(rest, o)
		}
	}
	h.r.Member.Lend(lent)
	return rest, nil
}

// requireNothingLent fails while other services have not taken the objects that they want.
func (h handover) requireNothingLent() error {
	if lent := h.r.Member.Lent(); len(lent) > 0 {
		return reason.Errorf(reason.ObjectClaimed, "waits for another service of the plan to take over %s", inventory.Describe(lent))
	}
	return nil
}
