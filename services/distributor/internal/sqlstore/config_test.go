// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

type (
	values  = map[string]string
	secrets = map[string]secret.Text
)

// plain is a configuration in a form whose differences may be printed.
func plain(c catalog.Config) map[string]string {
	all := map[string]string{}
	for key, value := range c.Values {
		all[key] = value
	}
	for key, secret := range c.Secrets {
		all["secret "+key] = secret.Reveal()
	}
	return all
}

func configured(name string, config *catalog.Config) *catalog.Service {
	s := service(name, "one", "demo")
	s.Spec.Config = config
	return s
}

// testConfig walks one service through the possible updates of its configuration.
func testConfig(t *testing.T, s subject) {
	apply(t, s, cluster("one"), repository("demo"))
	digests := map[string]string{}
	for _, step := range []struct {
		name  string
		given *catalog.Config
		did   catalog.Action
		want  map[string]string
	}{
		{"created", &catalog.Config{Values: values{"A": "1"}, Secrets: secrets{"P": "x", "Q": "y"}}, catalog.ActionCreated, values{"A": "1", "secret P": "x", "secret Q": "y"}},
		{"left out", nil, catalog.ActionUnchanged, values{"A": "1", "secret P": "x", "secret Q": "y"}},
		{"sent back as shown", &catalog.Config{Values: values{"A": "1"}, Secrets: secrets{"P": "", "Q": ""}}, catalog.ActionUnchanged, values{"A": "1", "secret P": "x", "secret Q": "y"}},
		{"a secret left out", &catalog.Config{Values: values{"A": "1"}, Secrets: secrets{"P": ""}}, catalog.ActionConfigured, values{"A": "1", "secret P": "x"}},
		{"another value", &catalog.Config{Values: values{"A": "2"}, Secrets: secrets{"P": ""}}, catalog.ActionConfigured, values{"A": "2", "secret P": "x"}},
		{"another secret", &catalog.Config{Values: values{"A": "2"}, Secrets: secrets{"P": "z"}}, catalog.ActionConfigured, values{"A": "2", "secret P": "z"}},
		{"no secrets", &catalog.Config{Values: values{"A": "2"}}, catalog.ActionConfigured, values{"A": "2"}},
		{"emptied", &catalog.Config{}, catalog.ActionConfigured, values{}},
		{"emptied again", &catalog.Config{}, catalog.ActionUnchanged, values{}},
		{"left out when empty", nil, catalog.ActionUnchanged, values{}},
		{"as before", &catalog.Config{Values: values{"A": "2"}, Secrets: secrets{"P": "x"}}, catalog.ActionConfigured, values{"A": "2", "secret P": "x"}},
	} {
		outcome := apply(t, s, configured("app", step.given))[0]
		uid := outcome.Object.Meta().UID
		got, digest, err := s.Config(t.Context(), uid)
		if err != nil || outcome.Action != step.did {
			t.Fatalf("%s: got %v, %v, want %v", step.name, outcome.Action, err, step.did)
		}
		if diff := cmp.Diff(step.want, plain(got)); diff != "" {
			t.Errorf("%s: stored (-want +got):\n%s", step.name, diff)
		}
		// Equal content has equal digests, and different content has different ones.
		content := fmt.Sprint(step.want)
		if known, ok := digests[content]; ok && known != digest {
			t.Errorf("%s: got digest %s, want %s again", step.name, digest, known)
		}
		digests[content] = digest
		logged := changes(t, s, 0).Services[0]
		if logged.ConfigDigest != digest || (digest == "") != (len(step.want) == 0) {
			t.Errorf("%s: got digest %q in the log of changes and %q with the secrets", step.name, logged.ConfigDigest, digest)
		}
		if diff := cmp.Diff(plain(shown(got)), plain(*orEmpty(logged.Spec.Config))); diff != "" {
			t.Errorf("%s: log of changes (-want +got):\n%s", step.name, diff)
		}
	}
	seen := map[string]bool{}
	for _, digest := range digests {
		seen[digest] = true
	}
	if len(seen) != len(digests) {
		t.Errorf("got %d digests for %d contents", len(seen), len(digests))
	}
}

// shown returns a configuration as the log of changes has it: of the secrets only the keys.
func shown(c catalog.Config) catalog.Config {
	c.Secrets = maps.Clone(c.Secrets)
	for key := range c.Secrets {
		c.Secrets[key] = ""
	}
	return c
}

func orEmpty(c *catalog.Config) *catalog.Config {
	if c == nil {
		return &catalog.Config{}
	}
	return c
}

// testConfigDigest shows that a digest is the same on another replica, and tells neither who holds
// what, nor of moves of text between keys, values and secrets.
func testConfigDigest(t *testing.T, s subject) {
	apply(t, s, cluster("one"), repository("demo"))
	digest := func(store *sqlstore.Store, name string, config *catalog.Config) string {
		t.Helper()
		outcome := apply(t, s, configured(name, config))[0]
		_, digest, err := store.Config(t.Context(), outcome.Object.Meta().UID)
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	seen := map[string]int{}
	for i, config := range []*catalog.Config{
		{Values: values{"A": "1"}},
		{Secrets: secrets{"A": "1"}},
		{Values: values{"A": "1", "B": "2"}},
		{Values: values{"A": "1"}, Secrets: secrets{"B": "2"}},
		{Values: values{"B": "1"}, Secrets: secrets{"A": "2"}},
		{Values: values{"A": "1B2"}},
		{Values: values{"A": ""}},
	} {
		got := digest(s.Store, "app", config)
		if other, twice := seen[got]; twice {
			t.Errorf("configurations %d and %d have the same digest", i, other)
		}
		seen[got] = i
		if replica := digest(open(t, s.url), "app", nil); replica != got {
			t.Errorf("configuration %d: got digest %s here and %s on another replica", i, got, replica)
		}
	}
	same := &catalog.Config{Secrets: secrets{"P": "x"}}
	if a, b := digest(s.Store, "app", same), digest(s.Store, "other", same); a == b {
		t.Error("two services with the same secret have the same digest")
	}
	if _, none, err := s.Config(t.Context(), "no such uid"); err != nil || none != "" {
		t.Errorf("got %q, %v, want nothing for a service that does not exist", none, err)
	}
}

func testConfigSealed(t *testing.T, s subject) {
	ctx := t.Context()
	apply(t, s, cluster("one"), repository("demo"))
	secret := configured("app", &catalog.Config{Values: values{"A": "seen"}, Secrets: secrets{"P": "hunter2-in-the-clear"}})
	uid := apply(t, s, secret)[0].Object.Meta().UID
	if _, err := catalog.NewEditor(s).RequestSync(ctx, "app@one", false); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Config(ctx, uid); err != nil || got.Secrets["P"].Reveal() != "hunter2-in-the-clear" {
		t.Errorf("got %v, %v, want the secret kept by a sync", plain(got), err)
	}
	if shown := changes(t, s, 0).Services[0]; strings.Contains(fmt.Sprintf("%v", plain(*shown.Spec.Config)), "hunter2") {
		t.Error("the log of changes carries the secret")
	}
	wrongSecret(t, s)
}

func testConfigRefused(t *testing.T, s subject) {
	apply(t, s, cluster("one"), repository("demo"), configured("app", &catalog.Config{Secrets: secrets{"P": "x"}}))
	many := values{}
	for i := range 257 {
		many[fmt.Sprintf("K%d", i)] = ""
	}
	large := strings.Repeat("x", 64<<10)
	for name, test := range map[string]struct {
		config *catalog.Config
		field  string
	}{
		"a secret that is not stored": {&catalog.Config{Secrets: secrets{"P": "", "Q": ""}}, "spec.config.secrets[Q]"},
		"no name":                     {&catalog.Config{Values: values{"": "x"}}, "spec.config.values[]"},
		"a digit first":               {&catalog.Config{Values: values{"1A": "x"}}, "spec.config.values[1A]"},
		"a hyphen":                    {&catalog.Config{Secrets: secrets{"A-B": "x"}}, "spec.config.secrets[A-B]"},
		"a newline":                   {&catalog.Config{Values: values{"A\n": "x"}}, "spec.config.values[A\n]"},
		"a key twice":                 {&catalog.Config{Values: values{"P": "x"}, Secrets: secrets{"P": "y"}}, "spec.config.secrets[P]"},
		"too many keys":               {&catalog.Config{Values: many}, "spec.config"},
		"too long a value":            {&catalog.Config{Values: values{"A": large + "x"}}, "spec.config.values[A]"},
		"too long a secret":           {&catalog.Config{Secrets: secrets{"A": secret.Text(large + "x")}}, "spec.config.secrets[A]"},
		"too much in all": {&catalog.Config{Values: values{
			"A": large, "B": large, "C": large, "D": large, "E": large, "F": large, "G": large, "H": large,
		}}, "spec.config"},
		"not UTF-8": {&catalog.Config{Secrets: secrets{"A": "\xff"}}, "spec.config.secrets[A]"},
	} {
		_, err := update(t.Context(), catalog.NewEditor(s), configured("app", test.config))
		if e, ok := errors.AsType[*fielderr.Error](err); !ok || e.Path != "documents[0]."+test.field {
			t.Errorf("%s: got %v, want an error about %s", name, err, test.field)
		}
	}
}
