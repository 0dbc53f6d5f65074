// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"crypto/sha1" //nolint:gosec // a UUID of version 5 is made of it; nothing depends on its strength

	"github.com/google/uuid"
)

// Derivation is the origin of a derived service. Services share equal ones.
type Derivation struct {
	// Global and GlobalUID are the path and the uid of the global service.
	Global, GlobalUID string
	// Matched is why the cluster is selected.
	Matched string
	// Overrides are the indices of the ones that select the cluster.
	Overrides []int
	// OverrideNames are their names.
	OverrideNames []string
	// Config is nil if the configuration leads to no back end.
	Config *DerivedConfig
}

// DerivedUID returns the uid of the service that is derived for a cluster, given both uids: the same
// on every replica and after every restart. It is a UUID of version 5.
func DerivedUID(globalUID, clusterUID string) string {
	return DerivedUUID(globalUID, clusterUID).String()
}

// DerivedUUID returns what DerivedUID returns the text of.
func DerivedUUID(globalUID, clusterUID string) uuid.UUID {
	h := sha1.New() //nolint:gosec // see the import
	h.Write([]byte("leat.derived.v1\x00" + globalUID + "\x00" + clusterUID))
	id := uuid.UUID(h.Sum(nil)[:16])
	id[6], id[8] = id[6]&0x0f|0x50, id[8]&0x3f|0x80
	return id
}
