// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"slices"
)

// Reversed sorts objects for their deletion into waves, and each wave into groups. A wave begins
// when all objects of the one before are gone; groups follow one another without waiting. Objects
// that were applied last go first, and inside a wave a workload goes before the objects that it
// uses. Namespaces and definitions go last of all, regardless of their wave.
func Reversed(objects []Object) [][][]Object {
	sorted := slices.SortedFunc(slices.Values(objects), func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.depth(), b.depth()), cmp.Compare(b.Wave, a.Wave),
			cmp.Compare(b.rank(), a.rank()), a.Compare(b.Key))
	})
	var waves [][][]Object
	for i, o := range sorted {
		switch {
		case i == 0 || !sorted[i-1].sameWave(o):
			waves = append(waves, [][]Object{{o}})
		case sorted[i-1].rank() != o.rank():
			last := &waves[len(waves)-1]
			*last = append(*last, []Object{o})
		default:
			groups := waves[len(waves)-1]
			groups[len(groups)-1] = append(groups[len(groups)-1], o)
		}
	}
	return waves
}

func (o Object) sameWave(other Object) bool {
	return o.depth() == other.depth() && (o.Wave == other.Wave || o.depth() > 0)
}

// depth is 0 for objects that go first. Definitions go before namespaces only to make the order
// deterministic.
func (o Object) depth() int {
	switch (Key{Group: o.Group, Kind: o.Kind}) {
	case definitionKind:
		return 1
	case namespaceKind:
		return 2
	default:
		return 0
	}
}

// The ranks of kinds inside a wave: kinds of a higher rank use kinds of a lower one.
const (
	rankConfig = iota
	rankStorage
	rankAccess
	rankOther
	rankWorkload
	rankTraffic
	rankAdmission
)

// rank returns the rank of the object's kind. Custom resources are in the middle: their controllers
// may still need the configuration, and workloads may need them.
func (o Object) rank() int {
	switch o.Group {
	case "":
		return coreRank(o.Kind)
	case "apps", "batch":
		return rankWorkload
	case "storage.k8s.io", "scheduling.k8s.io":
		return rankStorage
	case "rbac.authorization.k8s.io":
		return rankAccess
	case "networking.k8s.io", "gateway.networking.k8s.io", "autoscaling", "policy":
		return rankTraffic
	case "admissionregistration.k8s.io", "apiregistration.k8s.io":
		return rankAdmission
	default:
		return rankOther
	}
}

func coreRank(kind string) int {
	switch kind {
	case "Pod", "ReplicationController":
		return rankWorkload
	case "Service", "Endpoints":
		return rankTraffic
	case "ServiceAccount":
		return rankAccess
	case "PersistentVolume", "PersistentVolumeClaim":
		return rankStorage
	default:
		return rankConfig
	}
}
