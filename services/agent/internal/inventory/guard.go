// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import "slices"

// Guard stops a prune that would take too much at once: the mark of a folder that was emptied or a path that was mistyped.
type Guard struct {
	// Percent is the share that may go without a question. A prune stops when more than that would go.
	Percent int
	// Objects is the number below which no prune is ever stopped.
	Objects int
}

// DefaultGuard stops when more than 30 % and at least 5 would go.
func DefaultGuard() Guard {
	return Guard{Percent: 30, Objects: 5}
}

// Stops tells whether going of total are too many to delete without a confirmation.
func (g Guard) Stops(total, going int) bool {
	return going >= g.Objects && going*100 > total*g.Percent
}

// Decision is what is to become of the objects that left a service.
type Decision struct {
	// Delete lists what is to be deleted; empty when Stopped.
	Delete []Object
	// Detach lists what stays in the cluster and is no longer Leat's: kinds whose deletion destroys what they contain.
	Detach []Object
	// Guarded lists what would be deleted if the guard had not stopped it; empty otherwise.
	Guarded []Object
}

// Stopped tells whether the guard stopped the prune.
func (d Decision) Stopped() bool {
	return len(d.Guarded) > 0
}

// Decide sorts gone, the objects of a service that its manifests no longer hold, into what to delete and what to detach.
// The guard compares what would be deleted with total, the size of the inventory; confirmed lifts it.
func (g Guard) Decide(total int, gone []Object, confirmed bool) Decision {
	var d Decision
	for _, o := range gone {
		if Precious(o.Key) {
			d.Detach = append(d.Detach, o)
		} else {
			d.Delete = append(d.Delete, o)
		}
	}
	if !confirmed && g.Stops(total, len(d.Delete)) {
		return Decision{Guarded: d.Delete}
	}
	return d
}

// Precious tells kinds whose deletion takes away more than the object: a Namespace takes everything in it, a
// CustomResourceDefinition all its objects, a PersistentVolumeClaim its data. They are never pruned.
func Precious(k Key) bool {
	return slices.Contains([]Key{
		{Kind: "Namespace"},
		{Kind: "PersistentVolumeClaim"},
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
	}, Key{Group: k.Group, Kind: k.Kind})
}
