// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

// Plain is an object of a plain kind. The store keeps its spec as JSON in a table of the common form, no secret is in it,
// and no query looks into it.
type Plain interface {
	Object
	// SpecAt returns where the spec is, as a pointer that its JSON can be read into.
	SpecAt() any
}

// plainKind says how a plain kind is stored.
type plainKind struct {
	table string
	empty func() Plain
}

// plainKinds are the plain kinds.
var plainKinds = map[Kind]plainKind{
	KindRole:          {"roles", func() Plain { return new(Role) }},
	KindTrustRule:     {"trust_rules", func() Plain { return new(TrustRule) }},
	KindRolloutPolicy: {"rollout_policies", func() Plain { return new(RolloutPolicy) }},
	KindImagePolicy:   {"image_policies", func() Plain { return new(ImagePolicy) }},
	KindAccessRequest: {"access_requests", func() Plain { return new(AccessRequest) }},
}

// PlainTable returns the table of a plain kind, and what makes its empty objects. ok is false for any other kind.
func PlainTable(kind Kind) (table string, empty func() Plain, ok bool) {
	plain, ok := plainKinds[kind]
	return plain.table, plain.empty, ok
}

// PlainOf returns those of some objects of plain kinds that are of type O.
func PlainOf[O Plain](all []Plain) (some []O) {
	for _, object := range all {
		if own, ok := object.(O); ok {
			some = append(some, own)
		}
	}
	return some
}
