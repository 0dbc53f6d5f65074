// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry

import (
	"net/http"
	"time"
)

// Impatient returns a transport as mirrors have it.
func Impatient(below http.RoundTripper, limit time.Duration) http.RoundTripper {
	return impatient{below: below, limit: limit}
}

// ErrTrickle ends a body that comes too slowly.
var ErrTrickle = errTrickle
