// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/kit/seal"
)

func TestSecSignaturesAreBoundToSecretPurposeAndParts(t *testing.T) {
	t.Parallel()
	signer := func(secret, purpose string) *seal.Signer {
		t.Helper()
		s, err := seal.NewSigner([]byte(strings.Repeat(secret, 32)), purpose)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	own := signer("a", "replica")
	signature := own.Sign("id", "http://10.0.0.1")
	if !own.Verify(signature, "id", "http://10.0.0.1") {
		t.Error("its own signature: got false")
	}
	for name, got := range map[string]bool{
		"another secret":  signer("b", "replica").Verify(signature, "id", "http://10.0.0.1"),
		"another purpose": signer("a", "route").Verify(signature, "id", "http://10.0.0.1"),
		"other parts":     own.Verify(signature, "id", "http://10.0.0.2"),
		"moved ends":      own.Verify(signature, "idh", "ttp://10.0.0.1"),
		"fewer parts":     own.Verify(signature, "idhttp://10.0.0.1"),
		"cut":             own.Verify(signature[:20], "id", "http://10.0.0.1"),
		"empty":           own.Verify("", "id", "http://10.0.0.1"),
		"no base64":       own.Verify("!", "id", "http://10.0.0.1"),
	} {
		if got {
			t.Errorf("%s: got true", name)
		}
	}
}
