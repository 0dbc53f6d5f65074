// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"strconv"
	"strings"
)

const (
	// maxName is the length of the longest name that a cluster can have.
	maxName = 253
	// maxLabel is the length of the longest name that a namespace or a service can have.
	maxLabel = 63
	maxPort  = 65535
)

// ValidName reports whether a name is a DNS subdomain (RFC 1123) in lower case, as all names of
// clusters are.
func ValidName(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return false
		}
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

// isLabel reports whether a name can belong to a namespace or a service.
func isLabel(name string) bool {
	return len(name) <= maxLabel && !strings.Contains(name, ".") && ValidName(name)
}

// isPort reports whether a text is a port's number in its one spelling.
func isPort(port string) bool {
	number, err := strconv.Atoi(port)
	return err == nil && number >= 1 && number <= maxPort && strconv.Itoa(number) == port
}
