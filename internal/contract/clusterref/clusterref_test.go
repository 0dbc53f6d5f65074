// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package clusterref_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/clusterref"
)

func TestParse(t *testing.T) {
	t.Parallel()
	secret := clusterref.Object{Kind: clusterref.Secret, Namespace: "shop", Name: "db.prod"}
	for text, want := range map[string]clusterref.Reference{
		"cluster://shop/db.prod#password":               {Object: secret, Key: "password"},
		"cluster://shop/db.prod#tls.crt?":               {Object: secret, Key: "tls.crt", IsOptional: true},
		"cluster://shop/db.prod":                        {Object: secret},
		"cluster://configmaps/shop/banner#text":         {Object: clusterref.Object{Kind: clusterref.ConfigMap, Namespace: "shop", Name: "banner"}, Key: "text"},
		"cluster://configmaps/db#password":              {Object: clusterref.Object{Kind: clusterref.Secret, Namespace: "configmaps", Name: "db"}, Key: "password"},
		"cluster://configmaps/configmaps/configmaps#_a": {Object: clusterref.Object{Kind: clusterref.ConfigMap, Namespace: "configmaps", Name: "configmaps"}, Key: "_a"},
	} {
		got, err := clusterref.Parse(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
}

// TestSecClusterReferencesNameOneObject gives references that a client could read as another path of
// the API server.
func TestSecClusterReferencesNameOneObject(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "cluster://", "cluster://shop", "cluster://shop/", "cluster:///db", "cluster://shop/db/x", "cluster://../db", "cluster://shop/..",
		"cluster://shop/.", "cluster://shop/db#", "cluster://shop/db#a/b", "cluster://shop/db#a#b", "cluster://shop/db%2f..", "cluster://Shop/db",
		"cluster://shop/db?watch=1", "cluster://shop/db#a b", "cluster://shop/*", "cluster://secrets/shop/db", "cluster://shop/db#a\n",
		"cluster://" + strings.Repeat("a", 64) + "/db", "cluster://shop/" + strings.Repeat("a", 254), "vault://shop/db#password",
		"cluster://shop/db#" + strings.Repeat("a", 254),
	} {
		if got, err := clusterref.Parse(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}
