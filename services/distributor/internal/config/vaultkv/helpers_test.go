// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package vaultkv_test

import (
	"fmt"
	"strings"

	"github.com/leatdev/leat/internal/kit/secret"
)

func secretOf(text string) secret.Text { return secret.Text(text) }

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `, "k%d": 1`, i)
	}
	return b.String()
}
