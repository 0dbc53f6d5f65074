// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"time"

	"github.com/leatdev/leat/services/distributor/internal/config/layers"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Explained names the source of one value of a configuration. It holds no value.
type Explained struct {
	Key string
	// Layer is the one that sets the key, and Shadows are the entries of lower ones, the highest
	// first.
	Layer   layers.Origin
	Shadows []Shadow
	// Reference is empty for a value in the document itself. Resolved is the reference to a back end
	// that it leads to, if that differs, and Through the sets that it leads through.
	Reference, Resolved string
	Through             []string
	// SameAs are other keys of the service with the same secret.
	SameAs   []string
	IsSecret bool
	// IsGiven means that there is a value, and IsLatest that it is from the last good answer, and that
	// the last read brought one.
	IsGiven, IsLatest bool
	Version           string
	ReadAt, NextAt    time.Time
	// Problem is the problem of the last read; nil: none.
	Problem *catalog.Problem
}

// Shadow is the entry of a layer under a key that a higher layer sets, too. It holds no value.
type Shadow struct {
	Layer layers.Origin
	// Reference is empty for a value in the document itself.
	Reference string
	IsSecret  bool
}

// Status is the state of the reads of a back end.
type Status struct {
	Entries, Failing int
	// Problem is the problem of the path that failed last, since the first of the failing ones fails;
	// nil: none is failing.
	Problem *catalog.Problem
	ReadAt  time.Time
}
