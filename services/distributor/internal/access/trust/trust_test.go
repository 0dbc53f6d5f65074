// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/access/trust"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// desk is a Desk whose verifier takes every token for signed, with the claims of the test.
type desk struct {
	rules  []*catalog.TrustRule
	claims trust.Claims
	// verified counts the verifications of signatures.
	verified int
}

func (d *desk) Issuer(string) (string, error) { return d.claims.Issuer, nil }

func (d *desk) Verify(context.Context, *catalog.TrustRule, string) (trust.Claims, error) {
	d.verified++
	return d.claims, nil
}

func (d *desk) TrustRule(name string) (*catalog.TrustRule, bool) {
	for _, rule := range d.rules {
		if rule.Name == name {
			return rule, true
		}
	}
	return nil, false
}

func (d *desk) TrustRules(issuer string, limit int) (found []*catalog.TrustRule) {
	for _, rule := range d.rules {
		if rule.Spec.Issuer == issuer && len(found) < limit {
			found = append(found, rule)
		}
	}
	return found
}

func (*desk) Look(context.Context) {}

func (d *desk) admit(ctx context.Context) (trust.Pass, error) {
	return trust.NewDesk(trust.Params{View: d, Verifier: d, Logger: slog.New(slog.DiscardHandler)}).Admit(ctx, secret.Text("a token"), "")
}

func claimsOf(values map[string]any) trust.Claims {
	now := time.Now()
	return trust.Claims{
		Issuer: "https://ci.example", Subject: "job", Audience: []string{"leat"}, IssuedAt: now, ExpiresAt: now.Add(time.Minute), Values: values,
	}
}

func ruleOf(user string, record ...string) *catalog.TrustRule {
	return &catalog.TrustRule{Metadata: catalog.Metadata{Name: "ci", UID: "u", Generation: 1}, Spec: catalog.TrustRuleSpec{
		Issuer: "https://ci.example", Audience: "leat", User: user, Record: record,
	}}
}

// TestNamesOfWorkloads makes names of random claims: no two workloads have one name, and no name
// belongs to another user.
func TestNamesOfWorkloads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		template := rapid.SampledFrom([]string{"{a}", "{a}:{b}", "{a}/{b}", "{a}--{b}", "x-{a}@{b}.y", "{b}:{a}", "{a}aa{b}"}).Draw(t, "template")
		value := rapid.StringMatching(`[ab:/@.-]{1,5}`)
		names := map[string]string{}
		for range 8 {
			a, b := value.Draw(t, "a"), value.Draw(t, "b")
			pass, err := (&desk{rules: []*catalog.TrustRule{ruleOf(template)}, claims: claimsOf(map[string]any{"a": a, "b": b})}).admit(context.Background())
			if err != nil {
				continue
			}
			key := a + "\x00" + b
			if !strings.Contains(template, "{b}") {
				key = a
			}
			if other, ok := names[pass.Name]; ok && other != key {
				t.Fatalf("%q and %q are both %s", other, key, pass.Name)
			}
			names[pass.Name] = key
			if !strings.HasPrefix(pass.Name, "ci:") || catalog.ValidatePerson(pass.Name) == nil || catalog.ValidateWorkload(pass.Name) != nil {
				t.Fatalf("got the name %q", pass.Name)
			}
		}
	})
}

// TestRecordedClaims keeps claims that fit into one line, and bounds all of them together.
func TestRecordedClaims(t *testing.T) {
	t.Parallel()
	values, names := map[string]any{"sub": "job", "number": 42.0, "half": 0.5, "yes": true, "list": []any{"x"}, "line": "a\nb", "empty": "", "bad": "\xff"}, []string{"number", "half", "yes", "list", "line", "empty", "bad", "none", "iss"}
	for i := range 10 {
		name := fmt.Sprint("long", i)
		values[name], names = strings.Repeat("x", 250), append(names, name)
	}
	pass, err := (&desk{rules: []*catalog.TrustRule{ruleOf("", names...)}, claims: claimsOf(values)}).admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for name, value := range pass.Claims {
		total += len(name) + len(value)
	}
	if pass.Claims["number"] != "42" || pass.Claims["yes"] != "true" || pass.Claims["iss"] != "https://ci.example" || pass.Claims["sub"] != "job" ||
		pass.Claims["long0"] == "" || total > 2<<10 {
		t.Errorf("got %d bytes: %v", total, pass.Claims)
	}
	for _, name := range []string{"half", "list", "line", "empty", "bad", "none"} {
		if _, ok := pass.Claims[name]; ok {
			t.Errorf("%s is on record as %q", name, pass.Claims[name])
		}
	}
}

// TestTooManyRules refuses to try a token by any number of rules.
func TestTooManyRules(t *testing.T) {
	t.Parallel()
	d := &desk{claims: claimsOf(map[string]any{"sub": "job"})}
	for i := range 65 {
		rule := ruleOf("")
		rule.Name = fmt.Sprint("ci", i)
		d.rules = append(d.rules, rule)
	}
	_, err := d.admit(t.Context())
	if refused, ok := errors.AsType[*trust.RefusedError](err); !ok || !strings.Contains(refused.Message, "trust_rule") {
		t.Errorf("got %v, want to be asked for a name", err)
	}
}

// TestSecOneSignatureForAllRules shows a token for which many rules of its issuer are tried. A stranger pays one
// signature for each set of keys, and not one for each rule.
func TestSecOneSignatureForAllRules(t *testing.T) {
	t.Parallel()
	d := &desk{claims: claimsOf(map[string]any{"repository": "acme/shop"})}
	for i := range 60 {
		rule := &catalog.TrustRule{Metadata: catalog.Metadata{Name: fmt.Sprint("rule-", i)}, Spec: catalog.TrustRuleSpec{
			Issuer: d.claims.Issuer, Audience: "another", CAPEM: fmt.Sprint(i % 2),
		}}
		d.rules = append(d.rules, rule)
	}
	if _, err := d.admit(t.Context()); err == nil || d.verified != 2 {
		t.Errorf("got %v after %d verifications, want a refusal after one for each of two sets of keys", err, d.verified)
	}
}
