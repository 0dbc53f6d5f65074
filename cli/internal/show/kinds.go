// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/document"
)

// kinds are the kinds of objects.
var kinds = map[string]kind{
	"Cluster":          clusterKind,
	"Repository":       repositoryKind,
	"Service":          serviceKind,
	"GlobalService":    globalServiceKind,
	"ConfigBackend":    configBackendKind,
	"ConfigSet":        configSetKind,
	"RolloutPolicy":    rolloutPolicyKind,
	"FleetSource":      fleetSourceKind,
	"Notifier":         notifierKind,
	"Project":          projectKind,
	"User":             userKind,
	"Role":             roleKind,
	"AccessBinding":    accessBindingKind,
	"IdentityProvider": identityProviderKind,
	"TrustRule":        trustRuleKind,
}

// kindOf returns the kind of a name. Objects of a kind that this release does not know are shown by their names alone.
func kindOf(name string) kind {
	if known, ok := kinds[name]; ok {
		return known
	}
	return kind{columns: []string{"NAME"}, cells: func(object *fleetv1.Document, _ time.Time) []cell {
		_, reference := document.Identify(object)
		return []cell{plain(reference)}
	}}
}
