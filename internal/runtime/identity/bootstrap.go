// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import "strings"

// BootstrapTokenPrefix begins the secrets of bootstrap tokens, with which agents enrol clusters that
// the hub does not know yet.
const BootstrapTokenPrefix = "leatboot_"

// IsBootstrapToken reports whether a join token is a bootstrap token.
func IsBootstrapToken(joinToken string) bool {
	return strings.HasPrefix(joinToken, BootstrapTokenPrefix)
}
