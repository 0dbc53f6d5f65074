// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/kit/fielderr"
)

// reservedDomain is the prefix of keys of labels and annotations that belong to the hub, and so is each
// domain below it. People cannot write them, so that no document can claim what the hub decides by.
const reservedDomain = "leat.dev"

// AnnotationAccessRequest is of bindings that an approval made: the name of the access request.
const AnnotationAccessRequest = reservedDomain + "/access-request"

// writableKeys are reserved keys that a program writes in the name of a person.
var writableKeys = []string{"leat.dev/up-plan"} // leat up remembers by it what it has made

// pairsAt are labels or annotations, and the field that holds them.
type pairsAt struct {
	field string
	pairs map[string]string
}

// pairsOf returns all labels and annotations that a document holds, always in the same order. Those in
// the template of a global service become metadata of services.
func pairsOf(object Object) []pairsAt {
	all := []pairsAt{{"metadata.labels", object.Meta().Labels}, {"metadata.annotations", object.Meta().Annotations}}
	if g, ok := object.(*GlobalService); ok {
		all = append(all, pairsAt{"spec.template_labels", g.Spec.Template.Labels}, pairsAt{"spec.template_annotations", g.Spec.Template.Annotations})
	}
	return all
}

// checkReserved returns an error if an edit adds a reserved key, or changes the value of one. One that an
// object has had since before the key was reserved may stay. current is nil for a new object.
func checkReserved(current, next Object) error {
	var had []pairsAt
	if current != nil {
		had = pairsOf(current)
	}
	for i, wants := range pairsOf(next) {
		for _, key := range slices.Sorted(maps.Keys(wants.pairs)) {
			if !isReserved(key) {
				continue
			}
			if had != nil {
				if value, ok := had[i].pairs[key]; ok && value == wants.pairs[key] {
					continue
				}
			}
			return fielderr.New(wants.field+"["+key+"]", "is reserved: keys of %s/ belong to the hub; choose another one", reservedDomain)
		}
	}
	return nil
}

// isReserved reports whether only the hub may write a key. Domains have no case.
func isReserved(key string) bool {
	domain, _, isQualified := strings.Cut(strings.ToLower(key), "/")
	return isQualified && (domain == reservedDomain || strings.HasSuffix(domain, "."+reservedDomain)) && !slices.Contains(writableKeys, key)
}
