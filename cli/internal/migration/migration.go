// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package migration makes documents of the objects with which other tools deliver to clusters.
//
// [Read] and [List] find the objects, in files or in a cluster. A translation, such as package argocd, reads each
// field of an object by [Fields], makes documents of what has a counterpart, and says what the rest means. A field
// that a translation does not read is reported by Fields itself, so no field is left out silently.
//
// Nothing here asks a hub, and nothing changes a cluster. The text of every object is somebody else's: it is bounded
// when it is read, and shown as a single line.
package migration

import (
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// Settings are what a person decides about an import.
type Settings struct {
	// Project is the project of the documents. Empty: the default.
	Project string
	// Cluster is the cluster at the hub where the other tool runs. Empty: none, and what is delivered to it is not
	// imported.
	Cluster string
	// Clusters are clusters at the hub by what the other tool calls them: a name or the URL of an API server. A cluster that is
	// not among them has the same name at the hub.
	Clusters map[string]string
	// Live makes services that deliver at once. Without it they compare, and change nothing, until a person takes
	// dryRun away.
	Live bool
}

// Result is what an import has made.
type Result struct {
	// Documents are in an order in which leat apply takes them.
	Documents []*fleetv1.Document
	// Entries has one entry for each object that was found, in their order.
	Entries []Entry
}

// Imported returns how many objects have become documents.
func (r Result) Imported() int {
	count := 0
	for _, e := range r.Entries {
		if len(e.Documents) > 0 {
			count++
		}
	}
	return count
}
