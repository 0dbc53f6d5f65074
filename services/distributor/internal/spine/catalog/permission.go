// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Permission is one thing that people may do: a verb on a resource of the API group leat.dev.
type Permission struct{ Verb, Resource string }

// String returns the permission as people write it, such as "sync services".
func (p Permission) String() string { return p.Verb + " " + p.Resource }

// Verbs that more than one place names.
const (
	VerbGet         = "get"
	VerbList        = "list"
	VerbWatch       = "watch"
	VerbCreate      = "create"
	VerbUpdate      = "update"
	VerbDelete      = "delete"
	VerbUse         = "use"
	VerbPause       = "pause"
	VerbConfirm     = "confirm"
	VerbRollback    = "rollback"
	VerbImpersonate = "impersonate"
	VerbSync        = "sync"
	VerbPreview     = "preview"
	VerbRevoke      = "revoke"
	VerbRelease     = "release"
	VerbRotate      = "rotate"
	VerbRefresh     = "refresh"
	VerbTest        = "test"
	VerbResend      = "resend"
	VerbControl     = "control"
	VerbApprove     = "approve"
	VerbDeny        = "deny"
	VerbWithdraw    = "withdraw"
)

// Resources of the kinds, and the ones that more than one place names.
const (
	ResourceClusters       = "clusters"
	ResourceRepositories   = "repositories"
	ResourceServices       = "services"
	ResourceUsers          = "users"
	ResourceTokens         = "tokens"
	ResourceAccessBindings = "accessbindings"
	ResourceAccessRequests = "accessrequests"
	ResourceRoles          = "roles"
	ResourceProjects       = "projects"
	ResourceProviders      = "identityproviders"
	ResourceTrustRules     = "trustrules"
	ResourceBackends       = "configbackends"
	ResourceNotifiers      = "notifiers"
	ResourceConfigSets     = "configsets"
	ResourceGlobalServices = "globalservices"
	ResourceRollouts       = "rolloutpolicies"
	ResourceFleetSources   = "fleetsources"
	ResourceImagePolicies  = "imagepolicies"
	ResourceJoinTokens     = "jointokens"
	ResourceBootstraps     = "bootstraptokens"
	// ResourceLoginSessions are sessions of people who signed in with an identity provider. The
	// resource sessions are connections of agents.
	ResourceLoginSessions = "loginsessions"
)

// vocabulary returns the verbs of each resource. Nothing else is a permission.
func vocabulary() map[string][]string {
	words := map[string][]string{
		"services/plan":       {VerbGet},
		"services/bundles":    {VerbGet},
		"services/diff":       {VerbGet},
		"services/inventory":  {VerbGet},
		"services/events":     {VerbWatch},
		"revisions":           {VerbList},
		ResourceJoinTokens:    {VerbCreate},
		ResourceBootstraps:    {VerbList, VerbCreate, VerbRevoke},
		ResourceTokens:        {VerbList, VerbCreate, VerbDelete},
		ResourceLoginSessions: {VerbList, VerbDelete},
		"keys":                {VerbGet, VerbRotate},
		"auditrecords":        {VerbList},
		"sessions":            {VerbList},
		"recordings":          {VerbList, VerbGet},
	}
	for _, kind := range allKinds {
		verbs := []string{VerbGet, VerbList, VerbWatch}
		if !kind.IsByCalls() {
			verbs = append(verbs, VerbCreate, VerbUpdate, VerbDelete)
		}
		words[ResourceOf(kind)] = append(verbs, fleetdoc.Describe(string(kind)).GetVerbs()...)
	}
	return words
}

// Permissions returns all permissions that exist, by resource and verb.
func Permissions() []Permission {
	words := vocabulary()
	var all []Permission
	for _, resource := range slices.Sorted(maps.Keys(words)) {
		for _, verb := range slices.Sorted(slices.Values(words[resource])) {
			all = append(all, Permission{verb, resource})
		}
	}
	return all
}

// Permissible is every one of some verbs on every one of some resources; "*" stands for all. Its
// JSON is its stored form.
type Permissible struct {
	Verbs     []string `json:"verbs"`
	Resources []string `json:"resources"`
}

// Holds reports whether the permission is one of them.
func (s Permissible) Holds(p Permission) bool {
	return hasWord(s.Verbs, p.Verb) && hasWord(s.Resources, p.Resource)
}

func hasWord(words []string, word string) bool {
	return slices.Contains(words, word) || slices.Contains(words, accessrule.All)
}

// validate refuses words that are not in the vocabulary, and pairs without any permission: they are
// mistakes, which would show only when a person is refused.
func (s Permissible) validate(field string) error {
	if err := s.validateWords(field); err != nil {
		return err
	}
	if !slices.ContainsFunc(Permissions(), s.Holds) {
		return fielderr.New(field,
			"allows nothing: none of the resources has one of the verbs; docs/guides/access.md lists the permissions")
	}
	return nil
}

func (s Permissible) validateWords(field string) error {
	all := Permissions()
	for _, list := range []struct {
		name  string
		words []string
		of    func(Permission) string
	}{
		{"verbs", s.Verbs, func(p Permission) string { return p.Verb }},
		{"resources", s.Resources, func(p Permission) string { return p.Resource }},
	} {
		place := field + "." + list.name
		if len(list.words) == 0 {
			return fielderr.New(place, "is required; * means all")
		}
		err := fielderr.Each(place, "items", list.words, len(all), func(field, word string) error {
			if word != accessrule.All && !slices.ContainsFunc(all, func(p Permission) bool { return list.of(p) == word }) {
				return fielderr.New(field, "%.80q does not exist; docs/guides/access.md lists the permissions", word)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
