// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import "strings"

// Account is a service account. The zero Account is the agent's own.
type Account struct{ Namespace, Name string }

// ParseAccount reads "namespace/name", or a name alone, which is in the given namespace.
func ParseAccount(text, namespace string) Account {
	if text == "" {
		return Account{}
	}
	if before, after, found := strings.Cut(text, "/"); found {
		return Account{Namespace: before, Name: after}
	}
	return Account{Namespace: namespace, Name: text}
}

// String returns "namespace/name", or "" for the agent's own account.
func (a Account) String() string {
	if a == (Account{}) {
		return ""
	}
	return a.Namespace + "/" + a.Name
}
