// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fields"
)

func TestSelector(t *testing.T) {
	t.Parallel()
	o := parsed(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web-1, namespace: shop, labels: {tier: front}}}")
	core := parsed(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: web-1, namespace: shop}}")
	for name, test := range map[string]struct {
		selector   syncpolicy.Selector
		want, core bool
	}{
		"empty":           {want: true, core: true},
		"group":           {selector: syncpolicy.Selector{Group: "apps"}, want: true},
		"group pattern":   {selector: syncpolicy.Selector{Group: "*s"}, want: true},
		"no group":        {selector: syncpolicy.Selector{Group: "core"}, core: true},
		"kind":            {selector: syncpolicy.Selector{Kind: "Deployment"}, want: true},
		"kind in part":    {selector: syncpolicy.Selector{Kind: "Deploy"}},
		"name":            {selector: syncpolicy.Selector{Name: "web-?"}, want: true, core: true},
		"namespace":       {selector: syncpolicy.Selector{Namespace: "shop"}, want: true, core: true},
		"other namespace": {selector: syncpolicy.Selector{Namespace: "shop-*"}},
		"labels":          {selector: syncpolicy.Selector{Labels: "tier=front"}, want: true},
		"no such label":   {selector: syncpolicy.Selector{Labels: "!tier"}, core: true},
		"one of two":      {selector: syncpolicy.Selector{Kind: "Deployment", Name: "db"}},
	} {
		s, err := fields.Select(test.selector)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := s.Match(o); got != test.want {
			t.Errorf("%s: got %v for the Deployment, want %v", name, got, test.want)
		}
		if got := s.Match(core); got != test.core {
			t.Errorf("%s: got %v for the ConfigMap, want %v", name, got, test.core)
		}
	}
}

func TestInvalidRules(t *testing.T) {
	t.Parallel()
	for _, pointer := range []string{
		"", "spec", "/metadata", "/metadata/name", "/metadata/namespace", "/kind", "/apiVersion", "/*", "/metadata/*", "/*/name",
		"/spec/[name]", "/spec/[=x]",
	} {
		_, err := fields.Compile([]syncpolicy.IgnoreRule{{}, {Pointers: []string{pointer}}})
		if !errors.Is(err, fields.ErrInvalid) || !strings.HasPrefix(err.Error(), "rule 2: ") {
			t.Errorf("pointer %q: got %v, want an error about rule 2", pointer, err)
		}
	}
	if _, err := fields.Compile([]syncpolicy.IgnoreRule{{Objects: syncpolicy.Selector{Labels: "a in"}}}); !errors.Is(err, fields.ErrInvalid) {
		t.Errorf("labels: got %v, want ErrInvalid", err)
	}
}

func TestAnnotation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/data/a":               "{b: '2', c: '2'}",
		"/data/a,/data/b":       "{c: '2'}",
		" /data/a ,\n /data/b ": "{c: '2'}",
		"/spec/items/[name=a,size=1]/image,/data/": "{a: '2', b: '2', c: '2'}",
	} {
		o := thing(t, "data: {a: '2', b: '2', c: '2'}")
		o.SetAnnotations(map[string]string{fields.IgnoreAnnotation: text})
		ignored, err := (*fields.Rules)(nil).Of(o)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		wanted := thing(t, "data: "+want)
		wanted.SetAnnotations(o.GetAnnotations())
		assertEqual(t, text, wanted.Object, ignored.Strip(o).Object)
	}
}

// TestSecPointersOfAnObjectAreBounded lists very many pointers, each of which would be looked for
// in the whole object.
func TestSecPointersOfAnObjectAreBounded(t *testing.T) {
	t.Parallel()
	o := thing(t, "data: {a: '1'}")
	o.SetAnnotations(map[string]string{fields.IgnoreAnnotation: strings.TrimSuffix(strings.Repeat("/*/*/*/*/x,", 20_000), ",")})
	ignored, err := (*fields.Rules)(nil).Of(o)
	if !errors.Is(err, fields.ErrInvalid) || !ignored.Empty() || len(err.Error()) > 1_000 {
		t.Errorf("got %v, want ErrInvalid and nothing ignored", err)
	}
}
