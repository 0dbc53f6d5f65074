// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Account is a service account. The zero Account is the agent's own.
type Account struct{ Namespace, Name string }

// ParseAccount reads "namespace/name", or a name alone, which is in the given namespace. The zero
// Account is only the result of an empty text. So a text such as "/" is an error, and does not mean
// the agent's own account.
func ParseAccount(text, namespace string) (Account, error) {
	if text == "" {
		return Account{}, nil
	}
	name := text
	if before, after, found := strings.Cut(text, "/"); found {
		namespace, name = before, after
	}
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return Account{}, fmt.Errorf("%q is not a service account: write name, or namespace/name", text)
	}
	return Account{Namespace: namespace, Name: name}, nil
}

// String returns "namespace/name", or "" for the agent's own account.
func (a Account) String() string {
	if a == (Account{}) {
		return ""
	}
	return a.Namespace + "/" + a.Name
}
