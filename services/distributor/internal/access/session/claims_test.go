// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/access/session"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func provider(change func(*catalog.IdentityProviderSpec)) *catalog.IdentityProvider {
	p := &catalog.IdentityProvider{Metadata: catalog.Metadata{Name: "corp"}}
	if change != nil {
		change(&p.Spec)
	}
	return p
}

func many(n int) []any {
	var all []any
	for i := range n {
		all = append(all, fmt.Sprintf("group-%d", i))
	}
	return all
}

// TestSecClaimsOfAProvider gives names and groups that a person at a provider chose, and their
// forms after its document.
func TestSecClaimsOfAProvider(t *testing.T) {
	t.Parallel()
	type spec = catalog.IdentityProviderSpec
	type claims = map[string]any
	byName := func(s *spec) { s.UsernameClaim = "preferred_username" }
	byMail := func(s *spec) { s.UsernameClaim = "email" }
	bare := func(s *spec) { s.GroupPrefix = new("") }
	for name, tc := range map[string]struct {
		change  func(*spec)
		subject string
		claims  claims
		person  string
		groups  []string
		refused string
	}{
		"subject":                   {subject: "00u1", person: "corp.00u1"},
		"subject with a hyphen":     {subject: "-x_", person: "corp._8a5c2d"},
		"subject with a pipe":       {subject: "auth0|1", person: "corp._"},
		"subject like another form": {subject: "_8a5c2d", person: "corp._"},
		"named by claim":            {change: byName, subject: "1", claims: claims{"preferred_username": "ada"}, person: "ada"},
		"claim missing":             {change: byName, subject: "1", refused: "does not send"},
		"claim of another type":     {change: byName, subject: "1", claims: claims{"preferred_username": 3.0}, refused: "does not send"},
		"claim like Kubernetes":     {change: byName, subject: "1", claims: claims{"preferred_username": "system:admin"}, refused: "not a name"},
		"claim with a newline":      {change: byName, subject: "1", claims: claims{"preferred_username": "ada\n"}, refused: "not a name"},
		"claim too long":            {change: byName, subject: "1", claims: claims{"preferred_username": strings.Repeat("a", 254)}, refused: "not a name"},
		"verified mail":             {change: byMail, subject: "1", claims: claims{"email": "a@b.c", "email_verified": true}, person: "a@b.c"},
		"mail verified as text":     {change: byMail, subject: "1", claims: claims{"email": "a@b.c", "email_verified": "true"}, person: "a@b.c"},
		"mail not verified":         {change: byMail, subject: "1", claims: claims{"email": "a@b.c", "email_verified": false}, refused: "not verified"},
		"mail without a word":       {change: byMail, subject: "1", claims: claims{"email": "a@b.c"}, refused: "not verified"},
		"groups": {
			subject: "1", claims: claims{"groups": []any{"b", "a", "b", 3.0, "two words", ""}}, person: "corp.1", groups: []string{"corp:a", "corp:b"},
		},
		"groups as one text": {subject: "1", claims: claims{"groups": "a"}, person: "corp.1", groups: []string{"corp:a"}},
		"groups without prefix": {
			change: bare, subject: "1", claims: claims{"groups": []any{"leat:admins", "system:masters", "leat:x", "dev"}}, person: "corp.1", groups: []string{"dev"},
		},
		"mapped": {
			change:  func(s *spec) { s.Groups = map[string]string{"root": "leat:admins"} },
			subject: "1", claims: claims{"groups": []any{"root", "dev"}}, person: "corp.1", groups: []string{"corp:dev", "leat:admins"},
		},
		"mapped by the prefixed name": {
			change:  func(s *spec) { s.Groups = map[string]string{"corp:root": "leat:admins"} },
			subject: "1", claims: claims{"groups": []any{"root"}}, person: "corp.1", groups: []string{"corp:root"},
		},
		"other claim": {
			change: func(s *spec) { s.GroupsClaim = "roles" }, subject: "1", claims: claims{"roles": []any{"a"}, "groups": []any{"b"}}, person: "corp.1", groups: []string{"corp:a"},
		},
		"too many":       {subject: "1", claims: claims{"groups": many(257)}, refused: "more groups"},
		"groups to mind": {subject: "1", claims: claims{"_claim_names": claims{"groups": "src1"}}, refused: "more groups"},
		"required":       {change: func(s *spec) { s.Require = []catalog.ClaimRequirement{{Claim: "hd", Values: []string{"x", "y"}}} }, subject: "1", claims: claims{"hd": "y"}, person: "corp.1"},
		"required of a list": {
			change:  func(s *spec) { s.Require = []catalog.ClaimRequirement{{Claim: "orgs", Values: []string{"x"}}} },
			subject: "1", claims: claims{"orgs": []any{"w", "x"}}, person: "corp.1",
		},
		"required and missing": {change: func(s *spec) { s.Require = []catalog.ClaimRequirement{{Claim: "hd", Values: []string{"x"}}} }, subject: "1", refused: "hd"},
		"required and other": {
			change:  func(s *spec) { s.Require = []catalog.ClaimRequirement{{Claim: "hd", Values: []string{"x"}}} },
			subject: "1", claims: claims{"hd": "xx"}, refused: "hd",
		},
		"one of two required": {
			change: func(s *spec) {
				s.Require = []catalog.ClaimRequirement{{Claim: "hd", Values: []string{"x"}}, {Claim: "tid", Values: []string{"x"}}}
			},
			subject: "1", claims: claims{"hd": "x"}, refused: "tid",
		},
	} {
		got, err := session.PersonOf(provider(tc.change), session.Claims{Subject: tc.subject, Values: tc.claims})
		if tc.refused != "" {
			if refusal, ok := errors.AsType[*session.ClaimsError](err); !ok || !strings.Contains(refusal.Message, tc.refused) {
				t.Errorf("%s: got %+v, %v, want it refused for %q", name, got, err, tc.refused)
			}
			continue
		}
		isRight := got.Name == tc.person || strings.Contains(tc.person, "._") && strings.HasPrefix(got.Name, "corp._") && len(got.Name) == 46
		if err != nil || !isRight || !slices.Equal(got.Groups, tc.groups) || catalog.ValidatePerson(got.Name) != nil {
			t.Errorf("%s: got %+v, %v, want %s %v", name, got, err, tc.person, tc.groups)
		}
	}
}

// TestUserCodes makes codes for people, and reads what they type.
func TestUserCodes(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range 2000 {
		code := session.UserCodeOf(fmt.Sprint("device ", i))
		normal, ok := session.NormalUserCode(strings.ToLower(strings.ReplaceAll(code, "-", " ")))
		if !ok || normal != code || len(code) != 9 || code != session.UserCodeOf(fmt.Sprint("device ", i)) {
			t.Fatalf("got %q, %t for %q", normal, ok, code)
		}
		seen[code] = true
	}
	if len(seen) != 2000 {
		t.Errorf("got %d codes, want 2000", len(seen))
	}
	for _, wrong := range []string{"", "WDJB-MJH", "WDJB-MJHTT", "ABCD-EFGH", "WDJB_MJHT", "ẂDJB-MJHT", strings.Repeat("-", 100) + "WDJBMJHT"} {
		if code, ok := session.NormalUserCode(wrong); ok {
			t.Errorf("%q: got %q, want it refused", wrong, code)
		}
	}
}
