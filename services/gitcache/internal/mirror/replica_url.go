// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import "strings"

// ReplicaURL returns the URL of a replica for people to read: its name without the signature that others know it by.
func ReplicaURL(name string) string {
	url, _, _ := strings.Cut(name, "#")
	return url
}
