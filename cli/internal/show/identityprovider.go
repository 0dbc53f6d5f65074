// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strconv"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// identityProviderKind shows identity providers.
var identityProviderKind = kind{
	columns: []string{"NAME", "ISSUER", "CLIENT", "SESSIONS", "SUSPENDED"},
	cells:   providerCells,
}

func providerCells(object *fleetv1.Document, _ time.Time) []cell {
	p := object.GetIdentityProvider()
	suspended := ""
	if p.GetSpec().GetSuspended() {
		suspended = "yes"
	}
	return []cell{
		plain(p.GetMetadata().GetName()), plain(p.GetSpec().GetIssuer()), plain(p.GetSpec().GetClientId()),
		plain(strconv.Itoa(int(p.GetStatus().GetSessions()))), plain(suspended),
	}
}
