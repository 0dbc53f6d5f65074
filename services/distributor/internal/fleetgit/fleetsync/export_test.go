// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleetsync

import "github.com/leatdev/leat/services/distributor/internal/spine/catalog"

// Judge returns how many removals are due, held and kept, and the digest of the ones that can be
// confirmed.
func Judge(
	source *catalog.FleetSource, managed []catalog.Key, desired map[catalog.Key]struct{}, isPartial bool, confirmed string,
) (due []catalog.Key, held, kept int, digest string) {
	r := judge(source, managed, desired, isPartial, confirmed)
	return r.due, len(r.held), len(r.kept), r.digest
}
