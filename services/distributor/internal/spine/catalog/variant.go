// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import "context"

// DerivedConfig is the part of derived services' configuration from back ends. Services share equal
// ones.
type DerivedConfig struct {
	// Digest is the digest of the configuration without the values of back ends.
	Digest string
	// Waits and Problem belong to the configuration without back ends.
	Waits   bool
	Problem *Problem
	Variant ConfigVariant
}

// ConfigVariant is the common part of services of one global service whose references lead to the
// same values of back ends. Their values are stored once for all of them.
type ConfigVariant struct {
	// ID is a digest of the global service's uid and of the references.
	ID        string `json:"id"`
	GlobalUID string `json:"globalUID"`
	Project   string `json:"project"`
	// References are texts by key, with the values of facts in their place.
	References map[string]string `json:"references"`
}

// VariantState is the stored state of a variant.
type VariantState struct {
	ID, GlobalUID string
	// Digest is a keyed digest of the values.
	Digest string
	// Waits and Problem are as of a service.
	Waits   bool
	Problem *Problem
	// IsEnded is true if no service had the variant for a while. Its values are gone.
	IsEnded bool
}

// Variants stores what variants are given.
type Variants interface {
	// Keep stores the ones among some variants that are not stored yet, and decides about their
	// values. Back ends are read for them from then on. It returns why some cannot be stored, by id.
	// It may be repeated, and replicas may call it at once. Error: ErrUnavailable.
	Keep(ctx context.Context, variants []ConfigVariant) (refused map[string]*Problem, err error)
	// Forget ends variants that no service has. Error: ErrUnavailable.
	Forget(ctx context.Context, ids []string) error
}
