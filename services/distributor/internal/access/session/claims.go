// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// maxGroups and maxGroupBytes bound a person's groups, so that they fit into a token.
	maxGroups     = 256
	maxGroupBytes = 4 << 10
	// maxListed bounds the values of a list claim that are read.
	maxListed = 10_000

	subClaim           = "sub"
	defaultGroupsClaim = "groups"
	emailClaim         = "email"
)

// plainSubject is a subject that can be part of a name as it is.
var plainSubject = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._@+-]{0,125}[A-Za-z0-9])?$`)

// Person is a person's identity at a provider.
type Person struct {
	Name string
	// Groups are sorted, each once.
	Groups []string
}

// ClaimsError is why a provider's claims are refused. Its text is for the person.
type ClaimsError struct{ Message string }

// Error implements error.
func (e *ClaimsError) Error() string { return e.Message }

func refuse(format string, args ...any) error {
	return &ClaimsError{Message: fmt.Sprintf(format, args...)}
}

// PersonOf returns who the claims are about, by the rules of the provider's document. The error is
// a *ClaimsError.
func PersonOf(provider *catalog.IdentityProvider, claims Claims) (Person, error) {
	for _, requirement := range provider.Spec.Require {
		if !requirement.Meets(claims.Values[requirement.Claim]) {
			return Person{}, refuse("the hub lets in only people of %s whose claim %q has one of certain values; ask an administrator of the hub",
				provider.ShownTitle(), requirement.Claim)
		}
	}
	name, err := nameOf(provider, claims)
	if err != nil {
		return Person{}, err
	}
	groups, err := groupsOf(provider, claims)
	return Person{Name: name, Groups: groups}, err
}

// nameOf returns the person's name. A name that is made of the subject begins with the provider's
// name and a dot, which no provider's name contains, so that no two providers make the same.
func nameOf(provider *catalog.IdentityProvider, claims Claims) (string, error) {
	claim := provider.Spec.UsernameClaim
	if claim == "" || claim == subClaim {
		return SubjectName(provider, claims.Subject), nil
	}
	name, ok := claims.Values[claim].(string)
	switch {
	case !ok || name == "":
		return "", refuse("%s does not send the claim %q, by which the hub names people; ask an administrator of the hub to correct usernameClaim or scopes",
			provider.ShownTitle(), claim)
	case claim == emailClaim && !verified(claims.Values["email_verified"]):
		return "", refuse("%s has not verified your mail address, by which the hub names people; verify it there and sign in again", provider.ShownTitle())
	}
	if err := catalog.ValidatePerson(name); err != nil {
		return "", refuse("the claim %q of %s is not a name that the hub can use: letters, digits and ._@+-, with a letter or digit at both ends",
			claim, provider.ShownTitle())
	}
	return name, nil
}

// SubjectName returns the name that is made of a provider's subject. No other subject has it,
// regardless of the name rules of the provider's document.
func SubjectName(provider *catalog.IdentityProvider, subject string) string {
	if plainSubject.MatchString(subject) {
		return provider.Name + "." + subject
	}
	// No plain subject begins with "_", so that the two forms never meet.
	sum := sha256.Sum256([]byte(subject))
	return provider.Name + "._" + hex.EncodeToString(sum[:20])
}

// verified reports whether a claim is true. Some providers send the text.
func verified(claim any) bool { return claim == true || claim == "true" }

// groupsOf returns the person's groups in the hub. Groups whose names no binding can have are left
// out, and so are names that are Leat's or Kubernetes' own unless a mapping has them.
func groupsOf(provider *catalog.IdentityProvider, claims Claims) ([]string, error) {
	spec := provider.Spec
	claim := spec.GroupsClaim
	if claim == "" {
		claim = defaultGroupsClaim
	}
	if isElsewhere(claims.Values, claim) {
		return nil, tooMany(provider, claim)
	}
	prefix := provider.Name + ":"
	if spec.GroupPrefix != nil {
		prefix = *spec.GroupPrefix
	}
	var groups []string
	for _, theirs := range texts(claims.Values[claim]) {
		if mapped, ok := spec.Groups[theirs]; ok {
			groups = append(groups, mapped)
			continue
		}
		if group := prefix + theirs; catalog.ValidateForeignGroup(group) == nil {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	groups = slices.Compact(groups)
	total := 0
	for _, group := range groups {
		total += len(group)
	}
	if len(groups) > maxGroups || total > maxGroupBytes {
		return nil, tooMany(provider, claim)
	}
	return groups, nil
}

func tooMany(provider *catalog.IdentityProvider, claim string) error {
	return refuse("%s sends more groups in the claim %q than fit into a token; ask its administrator to send only the groups that are assigned to the hub's client",
		provider.ShownTitle(), claim)
}

// isElsewhere reports whether the provider names another place for a claim, as Microsoft Entra does
// for the groups of people who are in many. No directory is called.
func isElsewhere(values map[string]any, claim string) bool {
	names, ok := values["_claim_names"].(map[string]any)
	if !ok {
		return values["hasgroups"] == true && claim == defaultGroupsClaim
	}
	_, named := names[claim]
	return named
}

// texts returns the texts of a claim: a list, or one text.
func texts(claim any) []string {
	switch c := claim.(type) {
	case string:
		if strings.TrimSpace(c) != "" {
			return []string{c}
		}
	case []any:
		var all []string
		for _, item := range c[:min(len(c), maxListed)] {
			if text, ok := item.(string); ok {
				all = append(all, text)
			}
		}
		return all
	}
	return nil
}
