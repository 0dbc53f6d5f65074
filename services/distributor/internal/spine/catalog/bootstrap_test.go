// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const kubeSystem = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"

func keyOf(b byte) ed25519.PublicKey { return bytes.Repeat([]byte{b}, ed25519.PublicKeySize) }

func TestBootstrapTokensAreChecked(t *testing.T) {
	t.Parallel()
	labels := map[string]string{}
	for i := range 65 {
		labels[fmt.Sprint("l", i)] = "x"
	}
	for name, test := range map[string]struct {
		change func(*catalog.BootstrapToken)
		want   string // "" for none
	}{
		"fine":                  {func(*catalog.BootstrapToken) {}, ""},
		"no prefix":             {func(b *catalog.BootstrapToken) { b.NamePrefix = "" }, "name_prefix"},
		"a long prefix":         {func(b *catalog.BootstrapToken) { b.NamePrefix = strings.Repeat("a", 53) }, "name_prefix"},
		"a path":                {func(b *catalog.BootstrapToken) { b.NamePrefix = "shop.edge-" }, "name_prefix"},
		"upper case":            {func(b *catalog.BootstrapToken) { b.NamePrefix = "Edge" }, "name_prefix"},
		"a hyphen first":        {func(b *catalog.BootstrapToken) { b.NamePrefix = "-edge" }, "name_prefix"},
		"a pattern":             {func(b *catalog.BootstrapToken) { b.NamePrefix = "*" }, "name_prefix"},
		"a project of two":      {func(b *catalog.BootstrapToken) { b.Project = "shop.till" }, "project"},
		"a malformed label":     {func(b *catalog.BootstrapToken) { b.Labels = map[string]string{"a b": "x"} }, "labels[a b]"},
		"a label of the hub":    {func(b *catalog.BootstrapToken) { b.Labels = map[string]string{"leat.dev/region": "x"} }, "labels[leat.dev/region]"},
		"many labels":           {func(b *catalog.BootstrapToken) { b.Labels = labels }, "labels"},
		"a long description":    {func(b *catalog.BootstrapToken) { b.Description = strings.Repeat("a", 1025) }, "description"},
		"no uses":               {func(b *catalog.BootstrapToken) { b.MaxUses = 0 }, "max_uses"},
		"fewer uses than none":  {func(b *catalog.BootstrapToken) { b.MaxUses = -1 }, "max_uses"},
		"uses without an end":   {func(b *catalog.BootstrapToken) { b.MaxUses = 10_001 }, "max_uses"},
		"the longest of prefix": {func(b *catalog.BootstrapToken) { b.NamePrefix = strings.Repeat("a", 52) }, ""},
	} {
		token := catalog.BootstrapToken{Project: "shop", NamePrefix: "edge-", Labels: map[string]string{"stage": "prod"}, MaxUses: 100}
		test.change(&token)
		err := token.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want+": ")) {
			t.Errorf("%s: got %v, want an error about %q", name, err, test.want)
		}
	}
}

// TestSecNewcomersAreChecked has agents send fields that are too long, or no names and uids.
func TestSecNewcomersAreChecked(t *testing.T) {
	t.Parallel()
	for _, uid := range []string{"", "x", strings.Repeat("a", 1<<16), kubeSystem + "0", strings.ToUpper(kubeSystem), kubeSystem[:35] + "\n", "../" + kubeSystem[3:]} {
		if err := (catalog.Newcomer{KubernetesUID: uid}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "kubernetes_uid: ") {
			t.Errorf("uid %.40q: got %v, want an error about it", uid, err)
		}
	}
	for _, name := range []string{"Edge", "edge.1", "shop/edge-1", "edge-1@x", strings.Repeat("a", 64), "edge-", "edge-1\n", "*"} {
		if err := (catalog.Newcomer{KubernetesUID: kubeSystem, Name: name}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "cluster_name: ") {
			t.Errorf("name %.40q: got %v, want an error about it", name, err)
		}
	}
	if err := (catalog.Newcomer{KubernetesUID: kubeSystem, Name: "edge-1"}).Validate(); err != nil {
		t.Errorf("got %v, want a good name and uid accepted", err)
	}
}

// TestSecBootstrapTokensOnlyMakeClusters has a token decide about every kind of newcomer.
func TestSecBootstrapTokensOnlyMakeClusters(t *testing.T) {
	t.Parallel()
	now := time.Now()
	made := func(key ed25519.PublicKey) *catalog.Cluster {
		return &catalog.Cluster{Metadata: catalog.Metadata{Name: "shop.edge-1"}, Agent: catalog.Agent{PublicKey: key}}
	}
	for name, test := range map[string]struct {
		change func(*catalog.BootstrapToken, *catalog.Newcomer)
		known  *catalog.Cluster
		want   string // the cluster to make, "known", or what the error is
	}{
		"a name by the uid":               {nil, nil, "shop.edge-0a1b2c3d4e"},
		"a prefix without hyphen":         {func(b *catalog.BootstrapToken, _ *catalog.Newcomer) { b.NamePrefix = "edge" }, nil, "shop.edge-0a1b2c3d4e"},
		"a name of its own":               {func(_ *catalog.BootstrapToken, n *catalog.Newcomer) { n.Name = "edge-berlin" }, nil, "shop.edge-berlin"},
		"a name outside of the prefix":    {func(_ *catalog.BootstrapToken, n *catalog.Newcomer) { n.Name = "prod-1" }, nil, "refused 2"},
		"the prefix alone":                {func(b *catalog.BootstrapToken, n *catalog.Newcomer) { b.NamePrefix, n.Name = "edge", "edge" }, nil, "refused 2"},
		"a lost answer":                   {nil, made(keyOf(1)), "known"},
		"a lost answer, with other words": {func(_ *catalog.BootstrapToken, n *catalog.Newcomer) { n.Name = "prod-1" }, made(keyOf(1)), "known"},
		"a lost answer to the last use":   {func(b *catalog.BootstrapToken, _ *catalog.Newcomer) { b.Uses = b.MaxUses }, made(keyOf(1)), "known"},
		"another key":                     {nil, made(keyOf(2)), "refused 4"},
		"a revoked key":                   {nil, made(nil), "refused 4"},
		"no use left":                     {func(b *catalog.BootstrapToken, _ *catalog.Newcomer) { b.Uses = b.MaxUses }, nil, "refused 1"},
		"an ended token":                  {func(b *catalog.BootstrapToken, _ *catalog.Newcomer) { b.ExpiresAt = now }, nil, "invalid"},
	} {
		token := catalog.BootstrapToken{ID: "id", Project: "shop", NamePrefix: "edge-", Labels: map[string]string{"stage": "prod"}, MaxUses: 3, Uses: 2, ExpiresAt: now.Add(time.Second)}
		newcomer := catalog.Newcomer{Key: keyOf(1), KubernetesUID: kubeSystem}
		if test.change != nil {
			test.change(&token, &newcomer)
		}
		cluster, err := token.Admit(newcomer, test.known, now)
		got := ""
		refused, isRefused := errors.AsType[*catalog.BootstrapError](err)
		switch {
		case isRefused:
			got = fmt.Sprint("refused ", int(refused.Why))
			if refused.Token != "id" || !strings.Contains(refused.Error(), objectname.Display(refused.Cluster)) {
				t.Errorf("%s: got %+v: %v", name, refused, err)
			}
		case errors.Is(err, catalog.ErrJoinTokenInvalid):
			got = "invalid"
		case err != nil:
			t.Errorf("%s: got %v", name, err)
		case cluster == test.known:
			got = "known"
		default:
			got = cluster.Name
			if cluster.Labels["stage"] != "prod" || len(cluster.Labels) != 1 {
				t.Errorf("%s: got labels %v, want the token's", name, cluster.Labels)
			}
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
