// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

// Once is an object that runs once, such as a Job, and the content that it runs for. Kubernetes may
// delete it after its end, and it must not run again for the same content. It is kept with the
// inventory, because fingerprints are only a cache.
type Once struct {
	Key Key `json:"key"`
	// Content identifies the manifest, in the same way in all releases.
	Content string `json:"content"`
	// Done means that the object has completed.
	Done bool `json:"done,omitempty"`
}
