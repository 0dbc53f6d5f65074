// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localtls_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	"github.com/leatdev/leat/cli/internal/localtls"
)

func TestEnsure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files, err := localtls.Ensure(dir, "laptop.example.com")
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	if files, err = localtls.Ensure(dir, "laptop.example.com"); err != nil {
		t.Fatalf("second start: %v", err)
	}
	again, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(authority, again) {
		t.Error("the authority changed at the second start, want the same: kubeconfigs hold it")
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	for _, host := range []string{"127.0.0.1", "::1", "localhost", "laptop.example.com"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err != nil {
			t.Errorf("verify for %s: %v", host, err)
		}
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: "example.com", Roots: roots}); err == nil {
		t.Error("verify for example.com: got no error, want one")
	}
}
