// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strconv"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// configSetKind shows sets of configuration.
var configSetKind = kind{
	columns: []string{"NAME", "VALUES", "SECRETS", "REFERENCES", "DESCRIPTION"},
	cells:   configSetCells,
}

// configSetCells shows how much a set holds.
func configSetCells(object *fleetv1.Document, _ time.Time) []cell {
	s := object.GetConfigSet()
	config := s.GetSpec().GetConfig()
	return []cell{
		plain(s.GetMetadata().GetName()), plain(strconv.Itoa(len(config.GetValues()))), plain(strconv.Itoa(len(config.GetSecrets()))),
		plain(strconv.Itoa(len(config.GetReferences()))), plain(oneLine(s.GetSpec().GetDescription())),
	}
}
