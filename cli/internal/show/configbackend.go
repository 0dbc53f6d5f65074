// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"strconv"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// configBackendKind shows back ends of configuration.
var configBackendKind = kind{
	columns: []string{"NAME", "KIND", "PLACE", "PROJECTS", "PATHS", "ENTRIES", "FAILING", "READ", "PROBLEM"},
	cells:   backendCells,
}

// backendCells shows where a back end is, who may refer to it, and how its reads go.
func backendCells(object *fleetv1.Document, now time.Time) []cell {
	b := object.GetConfigBackend()
	spec, status := b.GetSpec(), b.GetStatus()
	kind, place := "environment", ""
	switch {
	case spec.GetVault() != nil:
		kind, place = "vault", spec.GetVault().GetUrl()+" "+cmp.Or(spec.GetVault().GetMount(), "secret")
	case spec.GetFiles() != nil:
		kind, place = "files", spec.GetFiles().GetRoot()
	case spec.GetKubernetes() != nil:
		kind, place = "kubernetes", cmp.Or(spec.GetKubernetes().GetUrl(), "hub")
	case spec.GetHttp() != nil:
		kind, place = "http", spec.GetHttp().GetUrl()
	case spec.GetAws() != nil:
		kind, place = "aws", spec.GetAws().GetRegion()
	case spec.GetGcp() != nil:
		kind, place = "gcp", spec.GetGcp().GetProject()
	case spec.GetAzure() != nil:
		kind, place = "azure", spec.GetAzure().GetUrl()
	}
	return []cell{
		plain(b.GetMetadata().GetName()), plain(kind), plain(place), list(spec.GetProjects()), list(spec.GetAllowedPaths()),
		plain(strconv.Itoa(int(status.GetEntries()))), plain(strconv.Itoa(int(status.GetFailing()))), ago(status.GetReadTime(), now), problem(status.GetProblem()),
	}
}
