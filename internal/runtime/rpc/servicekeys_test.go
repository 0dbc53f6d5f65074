// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
)

func TestServiceSecrets(t *testing.T) {
	t.Parallel()
	letters := func(letter string, n int) string { return strings.Repeat(letter, n) }
	long := func(letter string) string { return letters(letter, identity.MinServiceSecret) }
	for name, test := range map[string]struct {
		others string
		want   []string // nil: an error
	}{
		"none":     {"", []string{long("a")}},
		"two":      {long("b") + ", " + long("c") + ",\n", []string{long("a"), long("b"), long("c")}},
		"short":    {long("b") + ",short-and-secret", nil},
		"too many": {strings.Join([]string{long("b"), long("c"), long("d"), long("e")}, ","), nil},
	} {
		config := rpc.ServiceConfig{Secret: secret.Text(long("a")), OtherSecrets: secret.Text(test.others), Keys: []string{"tunnel=x"}}
		got, err := config.Secrets()
		if (err == nil) != (test.want != nil) || (config.Check() == nil) != (test.want != nil) {
			t.Errorf("%s: got %v, want %d secrets", name, err, len(test.want))
		}
		if err != nil && strings.Contains(err.Error(), "secret-") {
			t.Errorf("%s: the error %q contains a secret", name, err)
		}
		for i, want := range test.want {
			if i >= len(got) || string(got[i]) != want {
				t.Errorf("%s: got %d secrets, want %d in order", name, len(got), len(test.want))
				break
			}
		}
	}
}

// TestServiceAcceptsSeveralKeysOfAPeer has the distributor call with either of two secrets of the
// tunnel, and then with one that was taken off the list.
func TestServiceAcceptsSeveralKeysOfAPeer(t *testing.T) {
	t.Parallel()
	key := func(letter string) *identity.ServiceKey {
		t.Helper()
		k, err := identity.NewServiceKey([]byte(strings.Repeat(letter, identity.MinServiceSecret)), identity.ServiceTunnel)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	former, next := key("a"), key("b")
	for name, test := range map[string]struct {
		list         []string
		former, next bool
	}{
		"before":    {[]string{former.Public()}, true, false},
		"meanwhile": {[]string{former.Public(), next.Public()}, true, true},
		"after":     {[]string{next.Public()}, false, true},
	} {
		keys, err := identity.ParseServiceKeys(test.list)
		if err != nil {
			t.Fatal(err)
		}
		verifier := keys.Verifier([]string{identity.ServiceTunnel}, identity.ServiceDistributor)
		for of, want := range map[*identity.ServiceKey]bool{former: test.former, next: test.next} {
			token, err := of.For(identity.ServiceDistributor).Token(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := verifier.Verify(t.Context(), token); (err == nil) != want {
				t.Errorf("%s: got %v, want accepted %t", name, err, want)
			}
		}
	}
}
