// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"maps"
	"slices"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// kinds are the kinds of objects that have a table of their own.
var kinds = map[string]kind{
	"Cluster":          clusterKind,
	"Repository":       repositoryKind,
	"Service":          serviceKind,
	"GlobalService":    globalServiceKind,
	"ConfigBackend":    configBackendKind,
	"ConfigSet":        configSetKind,
	"RolloutPolicy":    rolloutPolicyKind,
	"FleetSource":      fleetSourceKind,
	"ImagePolicy":      imagePolicyKind,
	"Notifier":         notifierKind,
	"Project":          projectKind,
	"User":             userKind,
	"Role":             roleKind,
	"AccessBinding":    accessBindingKind,
	"IdentityProvider": identityProviderKind,
	"TrustRule":        trustRuleKind,
	"AccessRequest":    accessRequestKind,
}

// kindOf returns the kind of a name. Of a kind that has no table of its own, the name and the labels of its objects are
// shown.
func kindOf(name string) kind {
	if known, ok := kinds[name]; ok {
		return known
	}
	return kind{columns: []string{"NAME", "LABELS"}, cells: func(object *fleetv1.Document, _ time.Time) []cell {
		_, reference := document.Identify(object)
		labels := document.Metadata(object).GetLabels()
		pairs := make([]string, 0, len(labels))
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			pairs = append(pairs, key+"="+labels[key])
		}
		return []cell{plain(reference), list(pairs)}
	}}
}
