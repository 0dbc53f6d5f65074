// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import "strings"

// ReplicaURL returns the URL of a replica for display: the replica's name without its signature.
func ReplicaURL(name string) string {
	url, _, _ := strings.Cut(name, "#")
	return url
}
