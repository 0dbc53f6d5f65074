// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package liquid_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/liquid"
)

// TestSecLiquidReadsTheTreeAlone includes files that exist outside of the tree, and asks for what
// the machine knows.
func TestSecLiquidReadsTheTreeAlone(t *testing.T) {
	t.Setenv("LEAT_CANARY", "canary")
	for _, template := range []string{
		"{% include '/etc/passwd' %}", "{% include '../../../../../../etc/passwd' %}", "{% include 'a/../../../etc/passwd' %}",
		"{% include 'liquid_test.go' %}", "{% assign f = '/proc/self/environ' %}{% include f %}", "{% include '..' %}", "{% include '' %}",
		"{{ 'LEAT_CANARY' | env }}", "{{ '$LEAT_CANARY' | expandenv }}", "{{ 'localhost' | getHostByName }}", "{{ 'now' | date: '%s' }}",
		"{{ '2006' | toDate: '2006' }}", "{{ 'a' | htpasswd: 'b' }}",
	} {
		got, err := liquid.Renderer{}.RenderStep(t.Context(), input(map[string]string{"web/a.txt.liquid": template}, "web"))
		if problem := new(render.Error); !errors.As(err, &problem) {
			t.Errorf("%s: got %q, %v, want an error", template, got.Files, err)
		}
	}
}

// TestSecLiquidIsBounded attacks what the renderer bounds. The worker bounds the rest;
// docs/guides/renderers.md lists it.
func TestSecLiquidIsBounded(t *testing.T) {
	t.Parallel()
	double := func(filter string) string {
		return "{% assign a = 'aaaaaaaa' %}{% for i in (1..60) %}{% assign a = a | " + filter + " %}{% endfor %}{{ a | size }}"
	}
	for name, test := range map[string]struct {
		template string
		want     render.Limit
	}{
		"a large result":       {"{% for i in (1..999999999) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}", render.LimitText},
		"append":               {double("append: a"), render.LimitText},
		"replace":              {double("replace: 'a', a"), render.LimitText},
		"join":                 {double("split: '' | join: a"), render.LimitText},
		"regexReplaceAll":      {"{% assign a = 'a' %}{% for i in (1..60) %}{% assign a = 'a' | regexReplaceAll: a, 'aaaaaaaa' %}{% endfor %}", render.LimitText},
		"repeat":               {"{{ 1000000000000 | repeat: 'a' }}", render.LimitText},
		"indent":               {"{{ 'a' | indent: 1000000000000 }}", render.LimitText},
		"until":                {"{{ 1000000000000 | until }}", render.LimitText},
		"untilStep":            {"{{ 0 | untilStep: 1000000000000, 1 }}", render.LimitText},
		"seq":                  {"{{ 1 | seq: 1000000000000 }}", render.LimitText},
		"wrapWith":             {"{% assign a = 'a' %}{% for i in (1..60) %}{% assign a = 1 | wrapWith: a, 'aaaaaaaaaaaaaaaa' %}{% endfor %}", render.LimitText},
		"small filters, often": {"{% assign s = 4096 | repeat: 'a' %}{% for i in (1..999999999) %}{% assign a = s | upcase %}{% endfor %}", render.LimitText},
		"lists of lists":       {"{% assign a = 'a' | list: 'a' %}{% for i in (1..60) %}{% assign a = a | list: a %}{% endfor %}", render.LimitValues},
		"maps of maps":         {"{% assign a = 'a' | dict: 'a' %}{% for i in (1..60) %}{% assign a = 'x' | dict: a, 'y', a %}{% endfor %}", render.LimitValues},
		"lists in lists":       {"{% assign a = 'a' | list %}{% for i in (1..999) %}{% assign a = a | list %}{% endfor %}", render.LimitDepth},
		"a concatenation":      {"{% assign a = 'a' | list: 'a' %}{% for i in (1..60) %}{% assign a = a | concat: a %}{% endfor %}", render.LimitValues},
		"a range":              {"{{ (1..999999999999) | join }}", render.LimitValues},
		"an include of itself": {"{% include 'a.txt.liquid' %}", render.LimitDepth},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(map[string]string{"a.txt.liquid": test.template}, "")
			in.Limits.Text = 1 << 20
			got, err := liquid.Renderer{}.RenderStep(t.Context(), in)
			if limit := new(render.LimitError); !errors.As(err, &limit) || limit.Limit != test.want || limit.Path != "a.txt.liquid" {
				t.Errorf("got %d files, %v, want a limit of %s", len(got.Files), err, test.want)
			}
		})
	}
}

// TestSecLiquidEndsWithTheContext ends loops that write, and loops that filter.
func TestSecLiquidEndsWithTheContext(t *testing.T) {
	t.Parallel()
	for _, template := range []string{
		"{% for i in (1..99999999999) %}{% assign x = i | plus: 1 %}{% endfor %}",
		"{% for i in (1..99999999999) %}{{ '' | append: '' }}{% endfor %}",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("took too long")) })
		_, err := liquid.Renderer{}.RenderStep(ctx, input(map[string]string{"a.txt.liquid": template}, ""))
		if err == nil || !strings.Contains(err.Error(), "took too long") {
			t.Errorf("%s: got %v, want the context's cause", template, err)
		}
	}
}
