// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// newTables returns the tables of all kinds, in the order of catalog.Kinds. Each answers every question that the store
// has of a kind; nil: nothing follows, nothing names it, nothing ends with it.
func newTables() []objects {
	return []objects{
		tableOf(storedProjects, putProject, heldBy, endBootstrapsIn),
		tableOf(storedClusters, putCluster, servicesOf, nil),
		tableOf(storedRepositories, nil, readsRepository, nil),
		tableOf(storedBackends, putBackend, refersToBackend, nil),
		tableOf(storedSets, putSet, usersOf, nil),
		&serviceTable{*tableOf(storedServices, putService, nil, nil)},
		tableOf(storedUsers, nil, nil, endBootstrapsBy),
		tableOf(storedRoles, nil, bindingsOf, nil),
		tableOf(storedBindings, nil, nil, nil),
		tableOf(storedProviders, nil, nil, nil),
		tableOf(storedRules, nil, nil, nil),
		tableOf(storedNotifiers, nil, nil, nil),
		tableOf(storedGlobals, putGlobal, nil, nil),
		tableOf(storedPolicies, nil, nil, nil),
		tableOf(storedFleetSources, nil, nil, nil),
	}
}

// serviceTable is the table of services. Of a derived one there is only what people ask of it, which is in another
// table.
type serviceTable struct {
	table[*catalog.Service, *serviceRow]
}

// get adds the secrets, which are in a table of their own.
func (k *serviceTable) get(ctx context.Context, t *tx, name string) (catalog.Object, error) {
	row, err := k.find(ctx, t.sql, "name", name)
	if err != nil {
		return nil, err
	}
	return serviceWithSecrets(ctx, t, row)
}

func (k *serviceTable) put(ctx context.Context, t *tx, object catalog.Object) error {
	service, ok := object.(*catalog.Service)
	if !ok || service.Derived == nil {
		return k.table.put(ctx, t, object)
	}
	key := service.Key()
	t.note(catalog.Change{Verb: catalog.VerbSync, Kind: string(key.Kind), Name: key.Name, UID: service.UID, Cluster: service.Spec.Cluster})
	return translate("request sync", putDerived(ctx, t, service))
}
