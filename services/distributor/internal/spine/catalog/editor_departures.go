// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"reflect"
)

// settleDepartures ends the departures of a global service if an edit answers the question that they ask:
// it selects clusters in another way, agrees, or allows as many removals.
func (e *Editor) settleDepartures(ctx context.Context, tx Tx, current, next Object) error {
	from, ok := current.(*GlobalService)
	to, ok2 := next.(*GlobalService)
	if !ok || !ok2 {
		return nil
	}
	isSelection := !reflect.DeepEqual(from.Spec.Clusters, to.Spec.Clusters)
	if !isSelection && reflect.DeepEqual(from.Spec.Removal, to.Spec.Removal) {
		return nil
	}
	departures, err := tx.Departures(ctx, to.UID)
	if err != nil || len(departures) == 0 {
		return err
	}
	left, held := departures.Count()
	isAllowed := left+held <= to.Spec.Removal.MaxRemoved(cmp.Or(e.derived.Members(to.Name), held)+left)
	isAgreed := held > 0 && departures.Digest(to.UID) == to.Spec.Removal.Confirmation
	if isSelection || isAllowed || isAgreed {
		return tx.EndDepartures(ctx, to.UID)
	}
	return nil
}
