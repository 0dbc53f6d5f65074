// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package objectname_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/objectname"
)

func TestHostLabels(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"berlin": "berlin", "shop.berlin": "shop--berlin", "eu-1.berlin": "eu-1--berlin", "a--b": "a---b", "a---b": "a-----b",
		"a--b.c": "a---b--c", "a.b--c": "a--b---c", "shop.default": "shop--default", "xnx.y": "xnx--y",
		long: long, "a." + long[:60]: "a--" + long[:60],
		// No label can stand for these.
		"a." + long[:61]: "", "xn--a": "", "xn.berlin": "", "a--" + long[:60]: "",
		"": "", "-": "", "a.b.c": "", "default.a": "", "A": "", "a.": "",
	} {
		got, ok := objectname.HostLabel(path)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: got %q, %t; want %q", path, got, ok, want)
		}
		if !ok {
			continue
		}
		if back, ok := objectname.ParseHostLabel(got); !ok || back != path {
			t.Errorf("%q: got %q, %t; want %q", got, back, ok, path)
		}
	}
}

// TestSecHostsAreOneLabel: a text that passes as the host of an object is one label, and no other
// text passes as the host of the same object.
func TestSecHostsAreOneLabel(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "-", "--", "shop.berlin", "berlin.", ".berlin", "a----b", "a------b", "a--b--c", "default--berlin", "-a", "a-", "--a", "a--",
		"a---", "---a", "A", "a_b", "a/b", "a%2eb", "a b", "xn--berlin", "xn---a", "xn--", long + "a", "a\x00", "é",
	} {
		if path, ok := objectname.ParseHostLabel(text); ok {
			t.Errorf("%q: got %q, want it refused", text, path)
		}
	}
	anything := rapid.StringMatching(`[a-cx.n-]{1,12}|[a-z0-9-]{1,70}|(a|b|-|--|---|\.)+`)
	rapid.Check(t, func(t *rapid.T) {
		text := anything.Draw(t, "text")
		if path, ok := objectname.ParseHostLabel(text); ok {
			if label, ok := objectname.HostLabel(path); !ok || label != text || strings.Contains(text, ".") || !objectname.IsPath(path) {
				t.Fatalf("%q is the host of %q, whose host is %q", text, path, label)
			}
		}
		if label, ok := objectname.HostLabel(text); ok {
			if path, ok := objectname.ParseHostLabel(label); !ok || path != text {
				t.Fatalf("%q has the host %q, which is that of %q", text, label, path)
			}
		}
	})
}
